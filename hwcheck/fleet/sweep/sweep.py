"""One sweep from its beginning to its end: measured level by level, judged, drained, told."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hwcheck.advise.assessment import Assessment
from hwcheck.connect.payload import Payload
from hwcheck.errors import UsageError
from hwcheck.exit_codes import NOT_MEASURED, PASS, combine
from hwcheck.fleet.notify.changes import Sweep
from hwcheck.fleet.notify.problems import RunProblems, in_short, observe
from hwcheck.fleet.notify.tell import tell
from hwcheck.fleet.sweep import state as sweep_state
from hwcheck.fleet.sweep.cut_off import close_run, cut_off_runs, runs_of_sweep
from hwcheck.fleet.sweep.draining import Drained, DrainFailed, drain_failed
from hwcheck.fleet.sweep.drains import to_drain, why_not_released
from hwcheck.fleet.sweep.incidents import repeated
from hwcheck.fleet.sweep.levels import DAY_S, LEVELS
from hwcheck.fleet.sweep.measuring import Measuring
from hwcheck.fleet.sweep.night import LevelResult, after, under_way, with_hosts
from hwcheck.fleet.sweep.plans import LevelPlan
from hwcheck.fleet.sweep.request import SweepRequest, shortfalls
from hwcheck.fleet.sweep.state import (
    FOLDER,
    SweepState,
    UnderWay,
    as_text,
    parsed,
    read_state,
    write_state,
)
from hwcheck.fleet.sweep.visits import PastVisit
from hwcheck.results.files import writing_to
from hwcheck.run.measure import Display


def run(
    request: SweepRequest,
    plans: Sequence[LevelPlan],
    payload: Payload,
    display: Display,
    callers: Callers,
    stop: threading.Event,
) -> int:
    """Sweep, and return the exit code. The caller holds the lock of the inventory.

    ``plans`` are those of now (``plans_now``). Set ``stop`` to end the visits; what was measured is
    judged, and the next sweep goes on with this one. Raises UsageError and DiskError.
    """
    judging = Judging(callers.show, display.say)
    codes = _end_what_was_cut_off(request, judging)
    now = sweep_state.now_utc()
    state, problem = read_state(request.runs, request.key)
    gone = ""
    if request.whole:
        state, gone = with_hosts(state, request.names, now)
    former = state.under_way
    beside_jobs = request.beside_jobs
    current, cut_off = under_way(state, request.key, now, request.budget_s, beside_jobs=beside_jobs)
    night = former if beside_jobs and former and not former.beside_jobs else None
    if night:
        former = None  # a night that was cut off is left to the next night
    for text in filter(None, (problem, gone, cut_off, *shortfalls(request, plans))):
        display.say(text)
    state = replace(state, under_way=night or current)
    write_state(request.runs, request.key, state)
    until = time.monotonic() + (parsed(current.ends) - now).total_seconds()
    measuring = Measuring(
        *(request, state, current.id, payload, display, judging.judge, stop, until)
    )
    results = [measuring.level(level) for level in request.levels]
    callers.visits_over()
    if not stop.is_set():
        sweeps = [former, current] if former and former.id != current.id else [current]
        drained = _conclude(request, sweeps, state, results, judging)
        state = replace(state, undrained=drained.undrained)
        state = replace(after(state, results, sweep_state.now_utc()), under_way=night)
        write_state(request.runs, request.key, state)
        if any(each.visits and each.level.load for each in results):
            callers.write_index(request.runs)
        codes.append(NOT_MEASURED if drained.why_not else PASS)
    return combine([*codes, *(each.exit_code for each in results)])


@dataclass(frozen=True)
class Callers:
    """What a sweep leaves to who calls it.

    ``show`` judges and reports a run folder, hands its assessment on and returns the exit code;
    ``visits_over`` is called when no host is visited any more, and ``write_index`` with the folder
    of the runs when the page of the fleet over its nights is to be written.
    """

    show: Callable[[Path, Callable[[Assessment], object]], int]
    visits_over: Callable[[], object]
    write_index: Callable[[Path], object]


class Judging:
    """Judges and reports run folders; ``problems`` are what each run says, as it was judged."""

    def __init__(
        self,
        show: Callable[[Path, Callable[[Assessment], object]], int],
        say: Callable[[str], None],
    ) -> None:
        self._show = show
        self.say = say
        self.problems: list[RunProblems] = []

    def judge(self, path: Path) -> int:
        """Judge and report a run folder, and return the exit code."""
        return self._show(path, lambda each: self.problems.append(observe(each)))


def _end_what_was_cut_off(request: SweepRequest, judging: Judging) -> list[int]:
    """Judge the runs of a sweep that was killed, and return their exit codes."""
    codes = []
    for runs in request.folders():
        for path in cut_off_runs(runs, request.key):
            if close_run(path):
                judging.say(f"{path} was cut off; what it measured:")
                codes.append(judging.judge(path))
    return codes


def _conclude(
    request: SweepRequest,
    sweeps: Sequence[UnderWay],
    state: SweepState,
    results: Sequence[LevelResult],
    judging: Judging,
) -> Drained:
    """Drain the hosts that failed, and tell people what changed; return what became of the hosts.

    ``sweeps`` are this one, the last, and the one before if it was cut off.
    """
    visits: list[PastVisit] = []
    if request.notify or request.drain_failed:
        visits = _judge_the_rest(request, sweeps, judging)
    drained = Drained(undrained=state.undrained)
    if request.drain_failed:
        drained = _drain(request, request.drain_failed, state, sweeps[-1], visits, judging)
    often = None
    if any(each.level.load for each in results):
        often = _repeated(request)
        for host, why in often.items():
            judging.say(f"{host}: the driver reports faults again and again: {why}")
    if request.notify:
        news = _news(request, sweeps[-1], results, visits, drained, often)
        folder = request.runs / FOLDER / request.key
        with writing_to(request.runs):
            folder.mkdir(parents=True, exist_ok=True)
        for text in tell(request.notify, folder, news, judging.problems):
            judging.say(text)
    return drained


def _judge_the_rest(
    request: SweepRequest, sweeps: Sequence[UnderWay], judging: Judging
) -> list[PastVisit]:
    """Judge again what sweeps had measured before they were cut off; return all their visits.

    Visits are in the order in which their runs began, and so are the problems then.
    """
    visits: list[PastVisit] = []
    judged = {each.run for each in judging.problems}
    folders = {request.runs_of(level): level for level in request.levels}
    for runs, level in folders.items():
        paths = [path for each in sweeps for path in runs_of_sweep(runs, each.id, each.began)]
        visits += request.read(level, [path.name for path in paths]).visits if paths else []
        for path in paths:
            if path.name not in judged:
                try:
                    judging.judge(path)
                except UsageError as error:
                    judging.say(f"{error}; nobody is told of it")
    judging.problems.sort(key=lambda each: each.run)
    return sorted(visits, key=lambda each: each.run)


def _drain(
    request: SweepRequest,
    terms: DrainFailed,
    state: SweepState,
    sweep: UnderWay,
    visits: Sequence[PastVisit],
    judging: Judging,
) -> Drained:
    """Drain the hosts that failed in this sweep, and those that could not be drained before."""
    names = set(request.names)
    of_others = {host: why for host, why in state.undrained.items() if host not in names}
    past = request.visits() if state.undrained else []
    former = {
        host: why
        for host, why in state.undrained.items()
        if why_not_released(why, [visit for visit in past if visit.host == host])
    }
    evidence = to_drain(former, visits, in_short(judging.problems))
    evidence = {host: why for host, why in evidence.items() if host in names}
    recent = {visit.run for visit in visits if visit.sweep == sweep.id}
    drained = drain_failed(request.cluster.hosts, request.runs, terms, evidence, recent)
    for text in drained.lines:
        judging.say(text)
    if terms.dry_run:
        return replace(drained, undrained=state.undrained)
    return replace(drained, undrained={**of_others, **drained.undrained})


def _repeated(request: SweepRequest) -> dict[str, str]:
    """Return on which hosts the driver reports faults again and again, and when."""
    faults = [fault for level in request.folders().values() for fault in request.read(level).faults]
    of_all = repeated(faults, sweep_state.now_utc())
    return {host: of_all[host] for host in request.names if host in of_all}


def _news(
    request: SweepRequest,
    sweep: UnderWay,
    results: Sequence[LevelResult],
    visits: Sequence[PastVisit],
    drained: Drained,
    often: Mapping[str, str] | None,
) -> Sweep:
    """Return what people may be told of this sweep."""
    of_sweep = [visit for visit in visits if visit.sweep == sweep.id]
    at_a_level = [visit for visit in of_sweep if visit.level]
    measured = {visit.host for visit in at_a_level if visit.measured_at(visit.level)}
    paths = {_folder_of(request, visit): None for visit in of_sweep}
    drains = request.drain_failed is not None and not request.drain_failed.dry_run
    return Sweep(
        sweep.id,
        {each.level.name: each.level.every_s for each in results},
        request.cluster.source,
        sweep.began,
        as_text(sweep_state.now_utc()),
        tuple(request.names),
        len(measured),
        {host: int(age_s // DAY_S) for each in results for host, age_s in each.late.items()},
        _late_links(results),
        often,
        tuple(map(str, paths)),
        drained.now,
        drained.why_not if drains else None,
    )


def _folder_of(request: SweepRequest, visit: PastVisit) -> Path:
    """Return the run folder of a visit of a sweep; those over several hosts are of no level."""
    runs = request.runs_of(LEVELS[visit.level]) if visit.level else request.runs
    return runs / visit.run


def _late_links(results: Sequence[LevelResult]) -> dict[str, str] | None:
    """Return the hosts of which links are late, each with which; None where no level had a look."""
    if not any(each.level.scopes for each in results):
        return None
    return {host: why for each in results for host, why in each.late_links.items()}
