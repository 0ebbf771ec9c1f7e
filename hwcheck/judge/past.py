"""What former runs measured, as judging takes it: columns, no files. Pure data.

``figures`` gives those of one run. What is handed to ``judge`` as the past is ``joined`` of former
runs, wherever they come from, as long as it equals what ``figures`` gives of each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwcheck.checks import telling
from hwcheck.checks.shared.leg_checks import BUSBW_GBPS
from hwcheck.contract.check import Check, Metric
from hwcheck.contract.collective_spec import SITE
from hwcheck.contract.wire import CheckResult, Leg
from hwcheck.judge.host_case import gpus_of, values_of
from hwcheck.judge.legs import LEAST_BYTES, PLAUSIBLE_BUSBW_GBPS, is_clean
from hwcheck.judge.readings import implausible
from hwcheck.results.run_folder import HostRecord, Run

GOES_BY = (
    *("duration_s", "load_dtype", "engine", "force"),
    *("timing.iterations", "timing.warmups", "timing.dtype"),
)
"""Options that figures go by: how long GPUs are loaded and with what, what times collectives and
how, and whether a job may have had a part of the node."""


class PastRun(NamedTuple):
    """A run: its folder's name, when it began (UTC, ISO 8601), its profile, and how it was asked.

    Under another profile GPUs are loaded for another time, and get as hot as that. ``asked`` are
    the options of ``GOES_BY`` in one text. Each is empty where it is not known.
    """

    id: str
    started: str
    profile: str = ""
    asked: str = ""

    def is_like(self, other: PastRun) -> bool:
        """Whether the figures of both can be held against each other, as far as it is known."""
        return self.profile in ("", other.profile) and (
            not (self.asked and other.asked) or self.asked == other.asked
        )


def asked_of(options: Mapping[str, Any]) -> str:
    """Return what ``PastRun.asked`` is of the options in a run.json; empty of a former run's."""
    flat = {**options, **{f"timing.{name}": of for name, of in options.get("timing", {}).items()}}
    words = [f"{name} {flat[name]}" for name in GOES_BY if name in flat]
    return ", ".join(words)


class PastSeries(NamedTuple):
    """One quantity of one subject over the runs: as in a sample.

    ``size_bytes`` is the message size where the subject is a leg, otherwise 0.
    """

    host: str
    check: str
    metric: str
    subject: str
    size_bytes: int = 0


class Setup(NamedTuple):
    """What a figure goes by besides the subject; empty where it is not known or has no part in it.

    ``board`` is the serial (or else the UUID) of the subject's GPU, or of all that it is about.
    ``torch`` is that of a load or of a collective, ``nccl`` the library of a leg.
    """

    driver: str = ""
    vbios: str = ""
    nccl: str = ""
    torch: str = ""
    board: str = ""


@dataclass(frozen=True, eq=False)
class Past:
    """Figures of runs, the oldest run first, in the metrics' own units.

    ``values`` has a row for each series and a column for each run, NaN where nothing was measured;
    ``setup_of`` has the place in ``setups`` of what each was measured under, -1 likewise.
    """

    runs: tuple[PastRun, ...]
    series: Sequence[PastSeries]
    setups: Sequence[Setup]
    values: NDArray[np.float64]
    setup_of: NDArray[np.int32]


def start_s(run: PastRun) -> float:
    """Return when a run began, in Unix seconds."""
    return datetime.fromisoformat(run.started.replace("Z", "+00:00")).timestamp()


def held(checks: Mapping[str, Check]) -> dict[str, dict[str, Metric]]:
    """Return by check and name the metrics that are held against former runs.

    Of a collective that is the busbw of each leg at each size of ``LEAST_BYTES`` and more, of the
    others the samples.
    """
    by_check = {
        check.id: {metric.name: metric for metric in check.metrics if metric.past}
        for check in checks.values()
    }
    return {name: metrics for name, metrics in by_check.items() if metrics}


def figures(run: Run, checks: Mapping[str, Check]) -> Past:
    """Return the figures of one run that are held against other runs."""
    series: list[PastSeries] = []
    values: list[float] = []
    setups: dict[Setup, int] = {}
    setup_of: list[int] = []
    held_metrics = held(checks)
    for record in run.records:
        for of, value, setup in _of_host(record, checks, held_metrics):
            series.append(of)
            values.append(value)
            setup_of.append(setups.setdefault(setup, len(setups)))
    return Past(
        (
            PastRun(
                *(run.meta.id, run.meta.started, run.meta.profile),
                asked=asked_of(run.meta.options),
            ),
        ),
        tuple(series),
        tuple(setups),
        np.array(values, np.float64).reshape(-1, 1),
        np.array(setup_of, np.int32).reshape(-1, 1),
    )


def joined(pasts: Iterable[Past]) -> Past:
    """Return several pasts as one, ordered by when their runs began; each run once."""
    parts = list(pasts)
    runs = sorted({run for part in parts for run in part.runs}, key=start_s)
    column = {run: place for place, run in enumerate(runs)}
    row: dict[PastSeries, int] = {}
    code: dict[Setup, int] = {}
    for part in parts:
        for of in part.series:
            row.setdefault(of, len(row))
        for setup in part.setups:
            code.setdefault(setup, len(code))
    values = np.full((len(row), len(runs)), np.nan)
    setup_of = np.full((len(row), len(runs)), -1, np.int32)
    for part in parts:
        if not part.series:
            continue
        at = np.ix_([row[of] for of in part.series], [column[run] for run in part.runs])
        codes = np.array([*(code[setup] for setup in part.setups), -1], np.int32)
        measured = part.setup_of >= 0
        values[at] = np.where(measured, part.values, values[at])
        setup_of[at] = np.where(measured, codes[part.setup_of], setup_of[at])
    return Past(tuple(runs), tuple(row), tuple(code), values, setup_of)


def _of_host(
    record: HostRecord,
    checks: Mapping[str, Check],
    held_metrics: Mapping[str, Mapping[str, Metric]],
) -> Iterator[tuple[PastSeries, float, Setup]]:
    setups = _setups(record)
    for result in record.report.results if record.report else ():
        metrics = held_metrics.get(result.check, {})
        check = checks.get(result.check)
        if not metrics or check is None or result.state != "done":
            continue
        if check.legs:
            for of, value, leg in _of_legs(record.host, result):
                yield of, value, setups.of_leg(library_of(leg))
            continue
        for sample in result.samples:
            metric = metrics.get(sample.metric)
            if metric is None or implausible(metric, sample):
                continue
            if not isinstance(sample.value, (bool, str)):
                of = PastSeries(record.host, result.check, sample.metric, sample.subject)
                yield of, float(sample.value), setups.of_subject(sample.subject, load=check.load)


def _of_legs(host: str, result: CheckResult) -> Iterator[tuple[PastSeries, float, Leg]]:
    low, high = PLAUSIBLE_BUSBW_GBPS
    for leg in result.legs:
        if leg.backend != "nccl" or leg.exercise or not is_clean(leg):
            continue
        for size in leg.sizes:
            if size.size_bytes >= LEAST_BYTES and low <= size.busbw_gbps <= high:
                subject = f"leg {leg.leg}"
                of = PastSeries(host, result.check, BUSBW_GBPS.name, subject, size.size_bytes)
                yield of, size.busbw_gbps, leg


class Setups:
    """What the figures of one host were measured under.

    ``gpus`` has of each GPU its slot, its board as in ``Setup``, and its VBIOS.
    """

    def __init__(self, driver: str, torch: str, gpus: Iterable[tuple[str, str, str]]) -> None:
        self._driver, self._torch = driver, torch
        self._gpus = {slot: (board, vbios) for slot, board, vbios in gpus}
        self._made: dict[tuple[str, bool], Setup] = {}

    def of_leg(self, library: str) -> Setup:
        """Return that of a leg; ``library`` is ``library_of`` it."""
        return self._of(tuple(self._gpus), library, self._torch)

    def of_subject(self, subject: str, *, load: bool) -> Setup:
        """Return that of a GPU, of a pair of GPUs, or of anything else of the node."""
        if (subject, load) not in self._made:
            gpus = tuple(gpu for gpu in subject.split("-") if gpu in self._gpus)
            self._made[subject, load] = self._of(gpus, "", self._torch if load else "")
        return self._made[subject, load]

    def _of(self, gpus: Sequence[str], nccl: str, torch: str) -> Setup:
        boards, vbios = zip(*(self._gpus[gpu] for gpu in gpus), strict=True) if gpus else ((), ())
        return Setup(
            driver=self._driver if gpus else "",
            vbios=" ".join(sorted({*vbios} - {""})),
            nccl=nccl,
            torch=torch,
            board=" ".join(boards).strip(),
        )


def library_of(leg: Leg) -> str:
    """Return what moved the data; of the leg of the node's own settings with these settings."""
    settings = [f"{name}={leg.env[name]}" for name in sorted(leg.env)] if leg.leg == SITE else ()
    return " ".join((leg.library, *settings))


def _setups(record: HostRecord) -> Setups:
    return Setups(
        _only(values_of(record, *telling("driver")).values()),
        _only(values_of(record, *telling("torch")).values()),
        ((f"gpu{gpu.index}", gpu.serial or gpu.uuid, gpu.vbios) for gpu in gpus_of(record)),
    )


def _only(values: Iterable[object]) -> str:
    texts = {str(value) for value in values}
    return texts.pop() if len(texts) == 1 else ""
