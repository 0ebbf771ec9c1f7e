"""How soon a node that changes is named by its own past, and how often a healthy one is.

    python benchmarks/nights.py [--hosts 50] [--nights 90] [--seed 1] [--jobs 2] [--write]

Simulates a fleet of 8-GPU nodes night by night: every figure that ``hwcheck.judge.own_past`` holds
against former runs, scattered as below, with faults of known size planted in some hosts, a driver
update over the fleet and a hot week. Each night is judged by the product's own code with all nights
before it. ``--write`` puts the table into docs/own-past.md. The exit code is 1 where an aim is
missed (``AIMS``).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import partial
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from numpy.typing import NDArray

from hwcheck.advise.catalogue import shipped
from hwcheck.judge.changes import changes
from hwcheck.judge.past import Past, PastRun, PastSeries, Setup, held

GPUS, PORTS = 8, 8
MIB = 2**20
SIZES = tuple(MIB << power for power in range(6, 11))
PAGE = Path(__file__).parent.parent / "docs" / "own-past.md"
BEGIN, END = "<!-- benchmarks/nights.py -->", "<!-- end -->"

UPDATE_NIGHT = 45
HOT_NIGHTS = range(62, 69)

ODD_HOST_NIGHTS = 1 / 500
"""Nights on which something else ran on a host: every bandwidth of it is 5 to 30 % lower. In
nccl-tests' log of an A100 node with P2P on (a 164 GB/s among 234) it is one figure of 26."""
ODD_FIGURES = 1 / 5000
"""Single figures that are as far off, for no reason that anybody knows."""


@dataclass(frozen=True)
class Quantity:
    """A figure of every host and how it scatters on one that is healthy.

    ``night`` is the standard deviation from night to night of the middle subject; each has its own,
    from half to twice that. ``wander`` is a slow one that lasts a week, ``between`` that between
    subjects. They are shares, with ``absolute`` in the unit. ``update`` and ``hot`` are what a
    driver update and a hot week do.
    """

    check: str
    metric: str
    subjects: tuple[str, ...]
    usual: float
    night: float
    wander: float
    between: float
    update: float = 0.0
    hot: float = 0.0
    size_bytes: int = 0
    absolute: bool = False


@dataclass(frozen=True)
class Count:
    """A counter of every host: what it grows by a night, in decades around ``usual``."""

    check: str
    metric: str
    subjects: tuple[str, ...]
    usual: float
    between: float = 0.5
    night: float = 0.35


GPU = tuple(f"gpu{n}" for n in range(GPUS))
PAIRS = tuple(f"gpu{a}-gpu{b}" for a in range(GPUS) for b in range(GPUS) if a != b)
PORT = tuple(f"port mlx5_{n}/1" for n in range(PORTS))


def quantities() -> Iterator[Quantity | Count]:
    """Yield every figure that is held against the past.

    Scatter within a run, from logs that people published of nccl-tests (out of place against in
    place, from 64 MiB on): one node, median 0.0 to 0.4 %, two nodes and more 1.4 to 3.7 %
    (superbenchmark's and gcm's test data; deepops' and cscs' documentation). From night to night a
    node is given that and up to three times as much. Between GPUs: 5 % of a matmul (ml-engineering,
    compute/accelerator), 8 % of an application (Sinha et al., SC22). The rest is
    hwcheck's own floors for healthy fleets (hwcheck/judge/peers.py): 1 to 2 % of a bandwidth, 3 C,
    3 % of a power.
    """
    for collective in ("all_reduce", "alltoall"):
        for leg, usual in (("default", 473.0), ("p2p_off", 40.0), ("net", 9.0)):
            for size in SIZES:
                night = 0.012 if leg == "net" else 0.005
                yield Quantity(
                    *(collective, "busbw_gbps", (f"leg {leg}",), usual, night, 0.003, 0.015),
                    *(-0.04, 0.0, size),
                )
    yield Quantity("sustained_tflops", "tflops", GPU, 700.0, 0.006, 0.004, 0.025, -0.02, -0.015)
    yield Quantity("hbm_bandwidth", "copy_gbps", GPU, 4300.0, 0.002, 0.001, 0.005, 0.01)
    for check, metric in (("host_to_device", "to"), ("device_to_host", "from")):
        yield Quantity(check, f"{metric}_device_gbps", GPU, 55.0, 0.008, 0.004, 0.02, -0.03)
    yield Quantity("gpu_pairs", "p2p_copy_gbps", PAIRS, 360.0, 0.006, 0.003, 0.01, 0.02)
    heat = partial(Quantity, "temperature_under_load", absolute=True)
    yield heat("temperature_c", GPU, 65.0, 1.0, 1.0, 4.0, 1.0, 5.0)
    yield heat("memory_temperature_c", GPU, 82.0, 1.2, 1.0, 4.0, 1.0, 5.0)
    yield Quantity("power_under_load", "power_w", GPU, 690.0, 0.006, 0.004, 0.015, -0.05, 0.01)
    yield Quantity("power_idle", "power_idle_w", GPU, 75.0, 0.02, 0.01, 0.06, 0.1, 0.05)
    yield Count("pcie_errors", "pcie_replays", GPU, 3.0)
    yield Count("pcie_aer", "aer_correctable", GPU, 0.3)
    yield Count("pcie_aer", "aer_nonfatal", GPU, 0.0)
    yield Count("ecc_errors", "ecc_corrected_volatile", GPU, 0.2)
    for metric in held(shipped().checks)["nvlink_errors"]:
        often = {"nvlink_symbol_errors": 5e4, "nvlink_crc_errors": 10.0}
        yield Count("nvlink_errors", metric, GPU, often.get(metric, 0.0))
    for metric in held(shipped().checks)["infiniband_ports"]:
        yield Count("infiniband_ports", metric, PORT, 2.0 if metric == "symbol_error" else 0.0)


class Fault(NamedTuple):
    """What is planted in a host: from night ``since`` to before ``until``.

    ``size`` is a share, in the unit for a temperature, or events a night for a counter. ``night``
    by night it is drawn where it flaps, and grows by ``size`` where it drifts.
    """

    kind: str
    host: int
    since: int
    until: int
    size: float
    check: str
    metric: str
    subject: str = ""

    @property
    def name(self) -> str:
        """The row of the table."""
        what = "busbw" if self.metric == "busbw_gbps" else self.metric
        if self.kind == "drift":
            return f"{what}: drift of {self.size:.1%} a night"
        if self.kind == "count":
            return f"{what}: {self.size:g} a night more"
        size = f"{self.size:g} C" if self.metric == "temperature_c" else f"{self.size:.0%}"
        return f"{what}: {self.kind} of {size}"

    def is_about(self, of: PastSeries, host: str) -> bool:
        """Whether a figure is one that the fault moves."""
        return of.host == host and _moves(self, of)


def _moves(fault: Fault, of: PastSeries) -> bool:
    if fault.metric == "busbw_gbps":
        return of.metric == fault.metric and of.subject == "leg default"
    return (of.check, of.metric, of.subject) == (fault.check, fault.metric, fault.subject)


BUSBW = ("all_reduce", "busbw_gbps", "leg default")
TFLOPS = ("sustained_tflops", "tflops", "gpu3")
HEAT = ("temperature_under_load", "temperature_c", "gpu5")
DOWNS = ("infiniband_ports", "link_downed", "port mlx5_4/1")
REPLAYS = ("pcie_errors", "pcie_replays", "gpu2")
CORRECTED = ("ecc_errors", "ecc_corrected_volatile", "gpu6")
SYMBOLS = ("infiniband_ports", "symbol_error", "port mlx5_1/1")
HBM = ("hbm_bandwidth", "copy_gbps", "gpu1")

PLANTED: tuple[tuple[str, float, tuple[str, str, str]], ...] = (
    *(("step", size, BUSBW) for size in (0.02, 0.03, 0.04, 0.05, 0.07, 0.10, 0.20)),
    *(("step", size, TFLOPS) for size in (0.03, 0.05, 0.10)),
    ("step", 0.05, HBM),
    *(("step", size, HEAT) for size in (8.0, 10.0, 15.0)),
    ("drift", 0.003, BUSBW),
    ("drift", 0.003, TFLOPS),
    ("flapping", 0.12, BUSBW),
    ("flapping", 0.10, TFLOPS),
    ("recovery", 0.10, BUSBW),
    ("soon after the update, step", 0.05, BUSBW),
    ("count", 8, DOWNS),
    ("count", 20_000, REPLAYS),
    ("count", 5_000, CORRECTED),
    ("count", 50_000, SYMBOLS),
    ("swap", 0.0, TFLOPS),
)

DRIFT_BEFORE = 0.06
AIMS = "under 1 false alarm in 10 000 host-nights; every 5 % step of busbw within 3 nights, every "
AIMS += "drift of 0.3 % a night before 6 %, every flapping host named as such"


def plant(hosts: int, nights: int, seed: int) -> list[Fault]:
    """Return the faults: of each kind in so many hosts, a fifth of the fleet at most."""
    draw = np.random.default_rng([seed, 1])
    each = max(1, hosts // (5 * len(PLANTED)))
    chosen = iter(draw.permutation(hosts))
    faults = []
    for kind, size, (check, metric, subject) in PLANTED:
        for _ in range(each):
            host = next(chosen, None)
            if host is None:
                break
            since = int(draw.integers(20, UPDATE_NIGHT - 6))
            if draw.random() < 0.5 and kind != "flapping":
                since = int(draw.integers(UPDATE_NIGHT + 10, nights - 22))
            if kind.startswith("soon"):
                since = UPDATE_NIGHT + int(draw.integers(1, 6))
            until = since + 12 if kind == "recovery" else nights
            faults.append(Fault(kind, int(host), since, until, size, check, metric, subject))
    return faults


def effect(fault: Fault, nights: int, draw: np.random.Generator) -> NDArray[np.float64]:
    """Return night by night the share or the degrees by which a fault makes a figure worse."""
    since = np.arange(nights) - fault.since
    on = (since >= 0) & (np.arange(nights) < fault.until)
    if fault.kind == "drift":
        return np.where(on, fault.size * (since + 1), 0.0)
    if fault.kind == "flapping":
        return np.where(on & (draw.random(nights) < 0.35), fault.size, 0.0)
    return np.where(on, fault.size, 0.0)


def simulate(quantity: Quantity | Count, hosts: int, nights: int, seed: int) -> Past:
    """Return every night of a figure over the fleet, with the faults that are planted in it."""
    of_fleet = np.random.default_rng([seed, 2])
    odd_nights = of_fleet.random((hosts, nights)) < ODD_HOST_NIGHTS
    warmth = of_fleet.uniform(0.7, 1.3, hosts)
    draw = np.random.default_rng([seed, *map(ord, repr(quantity)[:200])])
    series = [
        PastSeries(f"node{host:04d}", quantity.check, quantity.metric, subject, _size(quantity))
        for host in range(hosts)
        for subject in quantity.subjects
    ]
    host_of = np.repeat(np.arange(hosts), len(quantity.subjects))
    setups, setup_of = _setups(series, host_of, plant(hosts, nights, seed), nights)
    faults = [
        (row, fault)
        for fault in plant(hosts, nights, seed)
        for row in np.flatnonzero(host_of == fault.host)
        if _moves(fault, series[row])
    ]
    if isinstance(quantity, Count):
        values = _counts(quantity, len(series), nights, draw)
        for row, fault in faults:
            if fault.kind == "count":
                more = draw.poisson(fault.size, nights)
                values[row] += np.cumsum(np.where(np.arange(nights) >= fault.since, more, 0))
    else:
        off = _scattered(quantity, host_of, nights, draw, odd_nights, seed)
        off[:, UPDATE_NIGHT:] += quantity.update
        if quantity.hot:
            off[:, list(HOT_NIGHTS)] += quantity.hot * warmth[host_of][:, None]
        for row, fault in faults:
            worse = effect(fault, nights, draw)
            off[row] += worse if quantity.absolute else -worse
            if fault.kind == "swap":
                off[row, fault.since :] += draw.normal(0, 2 * quantity.between)
        values = quantity.usual + off if quantity.absolute else quantity.usual * (1 + off)
        values = np.round(values) if quantity.absolute else values
    return Past(_runs(nights), tuple(series), setups, values, setup_of)


def _kind(quantity: Quantity) -> str:
    return quantity.subjects[0] if quantity.size_bytes else ""


def _size(quantity: Quantity | Count) -> int:
    return quantity.size_bytes if isinstance(quantity, Quantity) else 0


def _runs(nights: int) -> tuple[PastRun, ...]:
    first = datetime(2026, 1, 1, 2, tzinfo=timezone.utc)
    days = (first + timedelta(days=night) for night in range(nights))
    return tuple(PastRun(f"{day:%Y%m%d}", f"{day:%Y-%m-%dT%H:%M:%SZ}") for day in days)


def _setups(
    series: list[PastSeries], host_of: NDArray[np.intp], faults: list[Fault], nights: int
) -> tuple[tuple[Setup, ...], NDArray[np.int32]]:
    """Return what each figure was measured under: two drivers, and a swapped board."""
    setups: dict[Setup, int] = {}
    setup_of = np.empty((len(series), nights), np.int32)
    swapped = {fault.host: fault.since for fault in faults if fault.kind == "swap"}
    for row, of in enumerate(series):
        board = f"{of.host} {of.subject}"
        old = Setup(driver="570.86.15", board=board)
        codes = [setups.setdefault(old, len(setups))]
        codes.append(setups.setdefault(old._replace(driver="580.95.05"), len(setups)))
        setup_of[row, :UPDATE_NIGHT], setup_of[row, UPDATE_NIGHT:] = codes
        host = int(host_of[row])
        if host in swapped and (of.subject == "gpu3" or of.subject.startswith("leg")):
            for code in codes:
                new = next(setup for setup, place in setups.items() if place == code)
                new = new._replace(board=board + " other")
                after = np.arange(nights) >= swapped[host]
                setup_of[row, after & (setup_of[row] == code)] = setups.setdefault(new, len(setups))
    return tuple(setups), setup_of


def _scattered(
    quantity: Quantity,
    host_of: NDArray[np.intp],
    nights: int,
    draw: np.random.Generator,
    odd_nights: NDArray[np.bool_],
    seed: int,
) -> NDArray[np.float64]:
    """Return how far each figure is off the usual one; tails as of Student's t of five degrees."""
    rows = len(host_of)
    own = quantity.night * 2 ** draw.uniform(-1, 1, rows)
    off = draw.normal(0, quantity.between, rows)[:, None] * np.ones(nights)
    # Half of the variance is the night's: all sizes of a leg, or GPUs of a host, have it alike.
    of_night = np.random.default_rng([seed, 3, *map(ord, f"{quantity.metric} {_kind(quantity)}")])
    together = of_night.standard_t(5, (host_of[-1] + 1, nights))[host_of]
    alone = draw.standard_t(5, (rows, nights))
    off += own[:, None] * (together + alone) / np.sqrt(2 * 5 / 3)
    wander = draw.normal(0, quantity.wander, rows)
    keep = np.exp(-1 / 7)
    for night in range(nights):
        off[:, night] += wander
        wander = keep * wander + np.sqrt(1 - keep**2) * draw.normal(0, quantity.wander, rows)
    if not quantity.absolute:
        odd = odd_nights[host_of] | (draw.random((rows, nights)) < ODD_FIGURES)
        off -= np.where(odd, draw.uniform(0.05, 0.3, (rows, nights)), 0.0)
    return off


def _counts(count: Count, rows: int, nights: int, draw: np.random.Generator) -> NDArray[np.float64]:
    """Return counters that begin anew where the node was started, every month or so."""
    usual = count.usual * 10 ** draw.normal(0, count.between, rows)
    grown = draw.poisson(usual[:, None] * 10 ** draw.normal(0, count.night, (rows, nights)))
    restarts = draw.random((rows, nights)) < 1 / 30
    values = np.empty((rows, nights))
    now = np.zeros(rows)
    for night in range(nights):
        now = np.where(restarts[:, night], 0, now) + grown[:, night]
        values[:, night] = now
        if count.metric in ("link_downed", "link_error_recovery"):
            now = now + (draw.random(rows) < 0.003)  # a switch was started, or a cable touched
    return values


class Named(NamedTuple):
    """A figure that was named on a night."""

    night: int
    of: PastSeries
    kind: str


def judged(quantity: Quantity | Count, hosts: int, nights: int, seed: int) -> list[Named]:
    """Judge a figure on every night by what went before, as the product does."""
    past = simulate(quantity, hosts, nights, seed)
    like = {of.host: "8 x H200" for of in past.series}
    metrics = held(shipped().checks)
    named = []
    for night in range(1, nights):
        until = replace(
            past,
            runs=past.runs[: night + 1],
            values=past.values[:, : night + 1],
            setup_of=past.setup_of[:, : night + 1],
        )
        named += [Named(night, of, change.kind) for of, change in changes(until, like, metrics)]
    return named


class Row(NamedTuple):
    """A line of the table; ``delays`` in nights, the first bad one counted."""

    name: str
    planted: int
    delays: list[int]
    as_such: int


def rows_of(faults: list[Fault], named: list[Named]) -> list[Row]:
    """Return for each kind and size how many were named, how soon, and as what."""
    by_host: dict[str, list[Named]] = defaultdict(list)
    for each in named:
        by_host[each.of.host].append(each)
    rows: dict[str, Row] = {}
    for fault in faults:
        if fault.kind == "swap":
            continue
        host = f"node{fault.host:04d}"
        about = [
            each
            for each in by_host[host]
            if fault.since <= each.night < fault.until and fault.is_about(each.of, host)
        ]
        row = rows.setdefault(fault.name, Row(fault.name, 0, [], 0))
        kinds = {each.kind for each in about}
        wanted = {"recovery": "step"}.get(fault.kind, fault.kind.rpartition(" ")[2])
        first = min((each.night for each in about), default=None)
        rows[fault.name] = Row(
            row.name,
            row.planted + 1,
            row.delays + ([first - fault.since + 1] if first is not None else []),
            row.as_such + (wanted in kinds),
        )
    return list(rows.values())


def false_alarms(faults: list[Fault], named: list[Named]) -> dict[str, set[tuple[str, int]]]:
    """Return the host-nights on which a healthy figure was named, by what it may be due to."""
    of_host = {f"node{fault.host:04d}": fault for fault in faults}
    wrong: dict[str, set[tuple[str, int]]] = defaultdict(set)
    for each in named:
        fault = of_host.get(each.of.host)
        if fault and fault.kind != "swap" and fault.is_about(each.of, each.of.host):
            if fault.since <= each.night < fault.until:
                continue
            if each.night >= fault.until:
                wrong["after a recovery"].add((each.of.host, each.night))
                continue
        where = "on other nights"
        if UPDATE_NIGHT <= each.night < UPDATE_NIGHT + 10:
            where = "after the update"
        elif each.night in range(HOT_NIGHTS.start, HOT_NIGHTS.stop + 3):
            where = "in the hot week"
        elif fault and fault.kind == "swap" and each.night >= fault.since:
            where = "after a swap"
        wrong[where].add((each.of.host, each.night))
    return wrong


def table(rows: list[Row]) -> str:
    """Return the rows as Markdown."""
    lines = ["| planted | hosts | named | as such | nights until named: median, most |"]
    lines.append("|---|---|---|---|---|")
    for row in rows:
        delays = sorted(row.delays)
        shown = f"{delays[len(delays) // 2]}, {delays[-1]}" if delays else ""
        lines.append(f"| {row.name} | {row.planted} | {len(delays)} | {row.as_such} | {shown} |")
    return "\n".join(lines)


def missed(rows: list[Row], share: float) -> list[str]:
    """Return which aims were missed."""
    problems = [] if share < 1e-4 else [f"a false alarm in {share:.2g} of host-nights"]
    for row in rows:
        late = max(row.delays, default=0)
        few = len(row.delays) < row.planted
        if row.name == "busbw: step of 5%" and (few or late > 3):
            problems.append(f"{row.name}: {len(row.delays)} of {row.planted}, after {late} nights")
        if "drift" in row.name and (few or late * 0.003 >= DRIFT_BEFORE):
            problems.append(f"{row.name}: {len(row.delays)} of {row.planted}, after {late} nights")
        if "flapping" in row.name and row.as_such < row.planted:
            problems.append(f"{row.name}: {row.as_such} of {row.planted} named as such")
    return problems


def main() -> int:
    """Simulate, judge, print; 1 where an aim is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=50)
    parser.add_argument("--nights", type=int, default=90)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help="put the table into the docs")
    arguments = parser.parse_args()
    size = (arguments.hosts, arguments.nights, arguments.seed)
    began = time.monotonic()
    figures = list(quantities())
    with ProcessPoolExecutor(arguments.jobs) as pool:
        parts = pool.map(judged, figures, *([each] * len(figures) for each in size))
        named = [each for part in parts for each in part]
    faults = plant(*size)
    rows, wrong = rows_of(faults, named), false_alarms(faults, named)
    host_nights = arguments.hosts * arguments.nights
    alarms = set().union(*wrong.values())
    share = len(alarms) / host_nights
    figures_a_host = sum(len(each.subjects) for each in figures)
    lines = [
        f"{arguments.hosts} hosts x {GPUS} GPUs x {arguments.nights} nights, {figures_a_host} "
        f"figures a host; seed {arguments.seed}.",
        "",
        table(rows),
        "",
        f"False alarms: {len(alarms)} of {host_nights} host-nights, {share * 1e4:.2f} in 10 000"
        + "".join(f"; {where} {len(nights)}" for where, nights in sorted(wrong.items()))
        + ".",
    ]
    print("\n".join(lines))
    print(f"{time.monotonic() - began:.0f} s")
    for each in sorted(set(named)):
        if (each.of.host, each.night) in alarms and len(alarms) < 60:
            print("false alarm:", each.night, each.kind, *each.of)
    if arguments.write:
        before, rest = PAGE.read_text().split(BEGIN)
        after = rest.split(END)[1]
        PAGE.write_text(f"{before}{BEGIN}\n" + "\n".join(lines) + f"\n{END}{after}")
    problems = missed(rows, share)
    print("\n".join(f"missed: {problem}" for problem in problems) or f"met: {AIMS}")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
