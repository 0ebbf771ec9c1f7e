"""What can be wrong with one record of a node at work: a leg, a copy between GPUs, a load.

The healthy nodes are those of ``at_work.yml``; each field of a record is changed as a broken node
would write it, and goes through the real checks, the judge and the rules.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hwcheck.contract.wire import CheckResult, Leg, Report, SizeTiming
from hwcheck.node.main import run_check
from tests.checks import test_load_scenarios as simulated
from tests.lab import at_work
from tests.lab.mutation import Mutation

SCATTER = 0.01
START_S = 8.0
Spoil = Callable[[list[Any]], "dict[str, Any] | None"]


@dataclass(frozen=True)
class Work:
    """What a node did: the legs of all_reduce, the copies of pairs, what befell its load.

    ``diagnostics`` are NCCL's version and its report of them, where it was asked.
    """

    legs: tuple[Leg, ...] = ()
    pairs: Mapping[str, Any] | None = None
    spoil: Spoil | None = None
    diagnostics: Mapping[str, Any] | None = None

    def results(self, idle: Report) -> Iterator[CheckResult]:
        """Yield what the checks of work make of it."""
        if self.legs:
            node = at_work.node_of(idle, legs=[*map(at_work.plain, self.legs)])
            yield run_check(at_work.REGISTRY["all_reduce"], node)
        if self.pairs is not None:
            node = at_work.node_of(idle, pairs=self.pairs)
            yield run_check(at_work.REGISTRY["gpu_pairs"], node)
        if self.diagnostics is not None:
            node = at_work.node_of(idle, diagnostics=self.diagnostics)
            yield run_check(at_work.REGISTRY["nccl_diagnostics"], node)
        if self.spoil is not None:
            yield from simulated.answers(self.spoil, at_work.SEED)[1]


def healthy(name: str, idle: Report, seed: int = 0) -> Work:
    """Return the work of a healthy node of ``at_work.yml``, its figures scattered a little."""
    says = next(node.work for node in at_work.healthy() if node.name == name)
    gpus, dice = len(idle.facts["gpus"]), random.Random(seed)

    def scattered(of: Any) -> Any:
        own = of if isinstance(of, Mapping) else {"gbps": of}
        return {**own, "gbps": own["gbps"] * (1 + dice.uniform(-SCATTER, SCATTER))}

    legs = {leg: scattered(of) if seed else of for leg, of in says["legs"].items()}
    return Work(
        tuple(replace(at_work.leg_of(leg, of, gpus), start_s=START_S) for leg, of in legs.items()),
        at_work.pairs_of(says["copies"], gpus) if says["copies"] else None,
        simulated.nothing if says["load"] else None,
        diagnostics_of(gpus) if name in WITH_DIAGNOSTICS else None,
    )


@dataclass(frozen=True)
class WorkChange:
    """A change of what a node did."""

    quantity: str
    change: str
    place: str
    of: Callable[[Work], Work]

    @property
    def mutation(self) -> Mutation:
        return Mutation(self.quantity, self.change, self.place)


# -- legs ---------------------------------------------------------------------------------------


def _sizes(change: Callable[[SizeTiming], SizeTiming], which: slice = slice(None)) -> Any:
    def changed(leg: Leg) -> Leg:
        places = range(len(leg.sizes))[which]
        after = [change(size) if n in places else size for n, size in enumerate(leg.sizes)]
        return replace(leg, sizes=tuple(after))

    return changed


def _slower(by: float) -> Callable[[SizeTiming], SizeTiming]:
    def changed(size: SizeTiming) -> SizeTiming:
        p95 = None if size.time_p95_us is None else size.time_p95_us * by
        figures = {"algbw_gbps": size.algbw_gbps / by, "busbw_gbps": size.busbw_gbps / by}
        return replace(size, time_us=size.time_us * by, time_p95_us=p95, **figures)

    return changed


def _transport(**values: Any) -> Callable[[Leg], Leg]:
    def changed(leg: Leg) -> Leg:
        rest = {key.replace("_to_", "/"): of for key, of in values.items()}
        merged = {**leg.transport, **rest}
        return replace(leg, transport={key: of for key, of in merged.items() if of is not None})

    return changed


def _ended(state: str, **more: Any) -> Callable[[Leg], Leg]:
    return lambda leg: replace(leg, state=state, sizes=(), **more)


LAST, FIRST, SMALL = slice(-1, None), slice(0, 1), slice(0, 4)
LEG: Mapping[str, Callable[[Leg], Leg]] = {
    "state = hang": _ended("hang", reason="no progress for 20 s", driver="answers"),
    "state = hang, and the driver too": _ended(
        "hang", reason="no progress for 20 s", driver="nvidia-smi did not answer within 20 s"
    ),
    "state = failed": _ended("failed", reason="rank 3: unhandled cuda error"),
    "state = not_run": _ended("not_run", reason="no time left"),
    "state = not_engaged": _ended("not_engaged", reason="NCCL took another way"),
    "state = not_started": _ended("not_started", reason="no communicator after 240 s"),
    "wrong elements = 1 in the last size": _sizes(lambda size: replace(size, wrong=1), LAST),
    "wrong elements = 1 in the first size": _sizes(lambda size: replace(size, wrong=1), FIRST),
    "wrong elements = 1 in place": _sizes(
        lambda size: replace(size, in_place=replace(size, wrong=1)), LAST
    ),
    "time = 10 times": _sizes(_slower(10)),
    "time = twice": _sizes(_slower(2)),
    "time = 10 times in the last size": _sizes(_slower(10), LAST),
    "time = 10 times in small sizes": _sizes(_slower(10), SMALL),
    "time = a tenth": _sizes(_slower(0.1)),
    "busbw = 0": _sizes(lambda size: replace(size, busbw_gbps=0.0, algbw_gbps=0.0)),
    "busbw = a tenth at the same time": _sizes(
        lambda size: replace(size, busbw_gbps=size.busbw_gbps / 10)
    ),
    "95th percentile = 20 times the median": _sizes(
        lambda size: replace(size, time_p95_us=size.time_us * 20)
    ),
    "spread = 0.8": _sizes(lambda size: replace(size, spread=0.8)),
    "spread of passes = 0.8": _sizes(lambda size: replace(size, passes=3, pass_spread=0.8)),
    "sizes = none": lambda leg: replace(leg, sizes=()),
    "sizes = the last missing": lambda leg: replace(leg, sizes=leg.sizes[:-1]),
    "sizes = the first half only": lambda leg: replace(leg, sizes=leg.sizes[: len(leg.sizes) // 2]),
    "sizes = one missing": lambda leg: replace(leg, sizes=(*leg.sizes[:3], *leg.sizes[4:])),
    "ranks = one less": lambda leg: replace(leg, ranks=leg.ranks - 1),
    "backend = gloo": lambda leg: replace(leg, backend="gloo", exercise=True, library="gloo"),
    "library = NCCL 2.18.3": lambda leg: replace(leg, library="NCCL 2.18.3"),
    "library = none": lambda leg: replace(leg, library=""),
    "env = none": lambda leg: replace(leg, env={}),
    "env = NCCL_ALGO left over": lambda leg: replace(leg, env={**leg.env, "NCCL_ALGO": "Tree"}),
    "dtype = bfloat16": lambda leg: replace(leg, dtype="bfloat16"),
    "start = 200 s": lambda leg: replace(leg, start_s=200.0),
    "duration = 500 s": lambda leg: replace(leg, duration_s=500.0),
    "first try = failed": lambda leg: replace(leg, first_failure="rank 3: unhandled system error"),
    "transport = not told": lambda leg: replace(leg, transport={}),
    "transport = shared memory": _transport(P2P_to_CUMEM=None, SHM=128),
    "transport = sockets": _transport(
        NET_to_IB=None, P2P_to_CUMEM=None, SHM=None, gdrdma=0, NET_to_Socket=16,
        network="Socket eth0",
    ),
    "transport = without GPUDirect": _transport(gdrdma=0),
    "transport = without NVLS": _transport(nvls=False),
    "transport = 1 channel": _transport(channels=1),
    "transport = one port": _transport(network="IB mlx5_0:1/IB"),
    "log = a warning of NCCL": lambda leg: replace(
        leg, log_tail="NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out"
    ),
    "log = a retry of InfiniBand": lambda leg: replace(
        leg, log_tail="NCCL WARN NET/IB : Got completion from peer with status=12 opcode=0 len=0"
    ),
}  # fmt: skip


OF_ALL_LEGS = (
    *("state = hang", "state = failed", "state = not_run", "time = 10 times", "time = twice"),
    *("sizes = none", "spread = 0.8", "library = NCCL 2.18.3", "start = 200 s"),
)


def of_work(work: Work) -> Iterator[WorkChange]:
    """Yield every change of what a healthy node did."""
    for name in (leg.leg for leg in work.legs):
        for title, change in LEG.items():
            quantity, _, words = title.partition(" = ")
            yield WorkChange(f"leg.{quantity}", words, name, _at_leg(name, change))
        yield WorkChange("leg", "not there", name, _without_leg(name))
    if work.legs:
        for title in OF_ALL_LEGS:
            quantity, _, words = title.partition(" = ")
            yield WorkChange(f"leg.{quantity}", words, "all", _at_leg("", LEG[title]))
    if work.pairs is not None:
        yield from _of_pairs()
    if work.diagnostics is not None:
        yield from _of_diagnostics(work.diagnostics["report"])
    if work.spoil is not None:
        yield from _of_load()


def _at_leg(name: str, change: Callable[[Leg], Leg]) -> Callable[[Work], Work]:
    def changed(work: Work) -> Work:
        legs = (change(leg) if leg.leg == name or not name else leg for leg in work.legs)
        return replace(work, legs=tuple(legs))

    return changed


def _without_leg(name: str) -> Callable[[Work], Work]:
    return lambda work: replace(work, legs=tuple(leg for leg in work.legs if leg.leg != name))


# -- copies between GPUs ------------------------------------------------------------------------

COPY: Mapping[str, Callable[[dict[str, Any]], dict[str, Any] | None]] = {
    "bandwidth = a tenth": lambda copy: {**copy, "gbps": copy["gbps"] / 10},
    "bandwidth = half": lambda copy: {**copy, "gbps": copy["gbps"] / 2},
    "bandwidth = not measured": lambda copy: {**copy, "gbps": None},
    "bandwidth together = a tenth": lambda copy: {
        **copy, "together_gbps": copy["together_gbps"] / 10
    },
    "bandwidth together = half": lambda copy: {**copy, "together_gbps": copy["together_gbps"] / 2},
    "bandwidth together = not measured": lambda copy: {**copy, "together_gbps": None},
    "wrong elements = 1": lambda copy: {**copy, "wrong": 1},
    "access = the other way": lambda copy: {**copy, "access": not copy["access"]},
    "pair = not there": lambda copy: None,
}  # fmt: skip


def _of_pairs() -> Iterator[WorkChange]:
    for title, change in COPY.items():
        quantity, _, words = title.partition(" = ")
        for place in ("one", "all"):
            if not (place == "all" and words == "not there"):
                yield WorkChange(f"copies.{quantity}", words, place, _at_pairs(place, change))
    for hung, driver in (("answers", "answers"), ("hangs", "nvidia-smi did not answer")):
        more = {"hung": ["gpu0-gpu1"], "driver": driver, "copies": [],
                "reason": "gpu0-gpu1: killed after 20 s without a word"}  # fmt: skip
        yield WorkChange("copies.hang", f"a pair, and the driver {hung}", "one",
                         lambda work, more=more: replace(work, pairs=more))  # fmt: skip


def _at_pairs(place: str, change: Any) -> Callable[[Work], Work]:
    def changed(work: Work) -> Work:
        assert work.pairs is not None
        copies = [change(dict(copy)) if place == "all" or not number else copy
                  for number, copy in enumerate(work.pairs["copies"])]  # fmt: skip
        there = [copy for copy in copies if copy is not None]
        return replace(work, pairs={**work.pairs, "copies": there})

    return changed


# -- NCCL's own diagnostics ---------------------------------------------------------------------

WITH_DIAGNOSTICS = ("h100x8",)
"""Nodes whose NCCL is new enough; one is enough, since nothing in it goes by the node."""
SAID = "node0:24563 NCCL DIAG "


def diagnostics_of(gpus: int) -> dict[str, Any]:
    """Return what a NCCL that has diagnostics says of a healthy node (the shape: ``nccl_diag``)."""
    across = f"across {gpus} ranks"
    verified = "verified P2P access in both directions between every GPU pair"
    lines = (
        "=== NCCL Diagnostics ===",
        "[OK] net bw: skipped (single host or no network transport)",
        f"[OK]   p2p: {verified} ({gpus * (gpus - 1)} peer accesses)",
        f"NCCL diagnostics completed in 245.3 ms {across}",
        "=== RAS Diagnostics ===",
        f"[OK]   GPU inventory: {gpus}x NVIDIA H100 per node consistent {across} in comm 0x7",
        f"[OK]   CUDA driver version: 12080 consistent {across} in comm 0x7",
        f"[OK]   ECC: no uncorrected volatile errors {across} in comm 0x7",
        f"[OK]   NVLink: found 18 link(s) per device, all active {across} in comm 0x7",
        f"[OK]   NCCL environment: NCCL_* env vars consistent {across} in comm 0x7",
        f"RAS diagnostics completed in 12.3 ms {across}",
    )
    return {"nccl": "2.31.2", "report": [SAID + text for text in lines]}


EDGE = "{0}Rank={1} {0}CudaDev={1} {0}NvmlDev={1}"
PAIR = f"{EDGE.format('src', 2)} {EDGE.format('dst', 5)}"
PART = "p2p: only 55/56 GPU-to-GPU peer accesses passed verification"
LINES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "pair = write mismatch": (
        "[OK]   p2p", (f"[INFO] {PART}", f"[INFO] p2p: write mismatch {PAIR}")
    ),
    "pair = import failed": ("[OK]   p2p", (f"[INFO] {PART}", f"[INFO] p2p: import failed {PAIR}")),
    "pair = could not be tested": (
        "[OK]   p2p", (f"[INFO] {PART}", f"[INFO] p2p: local CUDA setup failed {PAIR}")
    ),
    "pair = not named": ("[OK]   p2p", (f"[INFO] {PART}",)),
    "pairs = 12 verified": (
        "[OK]   p2p", ("[OK]   p2p: verified P2P access of some pairs (12 peer accesses)",)
    ),
    "pairs = none told": ("[OK]   p2p", ()),
    "check = returned 3": ("[OK]   p2p", ("[INFO] p2p: check returned 3",)),
    "end = not told": ("NCCL diagnostics completed", ()),
    "ras.GPU inventory = mismatch": (
        "[OK]   GPU", ("[INFO] GPU inventory: mismatch across 8 ranks, rank(s) {3} differ",)
    ),
    "ras.CUDA driver version = mismatch": (
        "[OK]   CUDA", ("[INFO] CUDA driver version: mismatch across 8 ranks, rank(s) {3} differ",)
    ),
    "ras.ECC = uncorrected": (
        "[OK]   ECC", ("[INFO] ECC: uncorrected volatile errors on rank(s) {3} (worst=2)",)
    ),
    "ras.ECC = unavailable": ("[OK]   ECC", ("[INFO] ECC: unavailable via NVML across 8 ranks",)),
    "ras.NVLink = inactive": (
        "[OK]   NVLink", ("[INFO] NVLink: inactive link(s) on rank(s) {3} across 8 ranks",)
    ),
    "ras.NCCL environment = mismatch": (
        "[OK]   NCCL env", ("[INFO] NCCL environment: mismatch across 8 ranks for NCCL_DEBUG",)
    ),
    "ras.end = not told": ("RAS diagnostics completed", ()),
}  # fmt: skip


def _of_diagnostics(report: Sequence[str]) -> Iterator[WorkChange]:
    for title, (first, instead) in LINES.items():
        quantity, _, words = title.partition(" = ")
        lines = [
            line
            for each in report
            for line in ([SAID + text for text in instead] if first in each else [each])
        ]
        yield _diagnosed(quantity, words, {"report": lines})
    yield _diagnosed("report", "none", {"report": []})
    yield _diagnosed("reason", "a rank died", {"reason": "rank 3 exited with code 1"})
    yield _diagnosed("version", "older", {"nccl": "2.27.5", "report": []})


def _diagnosed(quantity: str, words: str, more: Mapping[str, Any]) -> WorkChange:
    def changed(work: Work) -> Work:
        return replace(work, diagnostics={**(work.diagnostics or {}), **more})

    return WorkChange(f"diagnostics.{quantity}", words, "node", changed)


# -- loads --------------------------------------------------------------------------------------

BITS = {"hw_slowdown": 8, "sw_thermal": 0x20, "hw_thermal": 0x40, "hw_power_brake": 0x80,
        "sync_boost": 0x10, "application_clocks": 2}  # fmt: skip
Gpu = dict[str, dict[str, Any]]


def _work(name: str, change: Callable[[Any], Any]) -> Callable[[Gpu], None]:
    def changed(gpu: Gpu) -> None:
        gpu["work"][name] = change(gpu["work"].get(name))

    return changed


def _column(name: str, change: Callable[[float], float | None]) -> Callable[[Gpu], None]:
    """Return what changes a column while the load lasts."""

    def changed(gpu: Gpu) -> None:
        old = gpu["series"][name]
        values = old if isinstance(old, list) else [old] * len(simulated.TIMES)
        pairs = zip(simulated.TIMES, values, strict=True)
        gpu["series"][name] = [change(of) if 0 < at <= 20 else of for at, of in pairs]

    return changed


def _counter(name: str, by: float) -> Callable[[Gpu], None]:
    def changed(gpu: Gpu) -> None:
        start = gpu["series"][name]
        gpu["series"][name] = [start + by * (at > 12) for at in simulated.TIMES]

    return changed


def _gone(name: str) -> Callable[[Gpu], None]:
    return lambda gpu: gpu["series"].update({name: None})


LOAD: Mapping[str, Callable[[Gpu], None]] = {
    **{f"work.{name} = {share:g} of it": _work(name, lambda old, share=share: old * share)
       for name in ("tflops", "tflops_low", "copy_gbps", "to_device_gbps", "from_device_gbps")
       for share in (0.1, 0.5, 0.8)},
    **{f"work.{name} = not measured": _work(name, lambda old: None)
       for name in ("tflops", "tflops_low", "copy_gbps", "to_device_gbps", "from_device_gbps")},
    "work.wrong_products = 1": _work("wrong_products", lambda old: 1),
    "work.digest = another": _work("digest", lambda old: "0bad"),
    "work.products = 0": _work("products", lambda old: 0),
    "work.reason = ended early": _work("reason", lambda old: "CUDA error: unspecified failure"),
    "series.power_w = half": _column("power_w", lambda old: old / 2),
    "series.power_w = 0": _column("power_w", lambda old: 0.0),
    "series.power_w = twice": _column("power_w", lambda old: old * 2),
    "series.temperature_c = 105": _column("temperature_c", lambda old: 105.0),
    "series.temperature_c = 15 more": _column("temperature_c", lambda old: old + 15),
    "series.temperature_c = 33, all the time": _column("temperature_c", lambda old: 33.0),
    "series.memory_temperature_c = 110": _column("memory_temperature_c", lambda old: 110.0),
    "series.memory_temperature_c = 20 more": _column("memory_temperature_c", lambda old: old + 20),
    "series.sm_clock_mhz = half": _column("sm_clock_mhz", lambda old: old / 2),
    "series.sm_clock_mhz = 0.9 of it": _column("sm_clock_mhz", lambda old: old * 0.9),
    "series.memory_clock_mhz = half": _column("memory_clock_mhz", lambda old: old / 2),
    **{f"series.clock_events = {name}": _column("clock_events", lambda old, bit=bit: bit)
       for name, bit in BITS.items()},
    "series.pcie_generation = 1": _column("pcie_generation", lambda old: 1),
    "series.pcie_generation = 4": _column("pcie_generation", lambda old: 4),
    "series.pcie_width = 8": _column("pcie_width", lambda old: 8),
    "series.ecc_uncorrected = 1 more": _counter("ecc_uncorrected", 1),
    "series.ecc_corrected = 1 more": _counter("ecc_corrected", 1),
    "series.ecc_corrected = 1000000 more": _counter("ecc_corrected", 1e6),
    "series.pcie_replays = 1 more": _counter("pcie_replays", 1),
    "series.pcie_replays = 1000000 more": _counter("pcie_replays", 1e6),
    **{f"series.{name} = not told": _gone(name) for name in (
        "power_w", "temperature_c", "memory_temperature_c", "sm_clock_mhz", "memory_clock_mhz",
        "clock_events", "pcie_generation", "pcie_width", "ecc_uncorrected", "pcie_replays")},
}  # fmt: skip
RUN: Mapping[str, Mapping[str, Any]] = {
    "stopped = for safety": {"stopped": "gpu3 is 2 C below its slowdown threshold"},
    "backend = cpu": {"backend": "cpu"},
    "settled = never": {"settled_s": None},
    "end = after 3 s": {"load_end_s": 3.0},
    "cooling = not watched": {"cool_end_s": 20.0},
}


def _of_load() -> Iterator[WorkChange]:
    for title, change in LOAD.items():
        quantity, _, words = title.partition(" = ")
        for place, which in (("one", [3]), ("all", range(simulated.GPUS))):
            spoil = _spoiled(change, which)
            yield WorkChange(f"load.{quantity}", words, place,
                             lambda work, spoil=spoil: replace(work, spoil=spoil))  # fmt: skip
    for title, more in RUN.items():
        quantity, _, words = title.partition(" = ")
        ended = _ended_otherwise(more)
        yield WorkChange(f"load.{quantity}", words, "node", ended)


def _ended_otherwise(more: Mapping[str, Any]) -> Callable[[Work], Work]:
    return lambda work: replace(work, spoil=lambda _: dict(more))


def _spoiled(change: Callable[[Gpu], None], which: Iterable[int]) -> Spoil:
    def spoil(gpus: list[Gpu]) -> None:
        for number in which:
            change(gpus[number])

    return spoil


def names() -> Sequence[str]:
    """Return the nodes that were put to work."""
    return [node.name for node in at_work.healthy()]
