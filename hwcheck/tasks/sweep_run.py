"""One sweep: who is due is measured batch by batch, each level into one run folder."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path

from hwcheck.connect import payload
from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.errors import UsageError
from hwcheck.exit_codes import NOT_MEASURED, PASS, combine
from hwcheck.inventory.inventory import Cluster
from hwcheck.node import checks as registry
from hwcheck.node.wire import COLLECTIVES
from hwcheck.notify.changes import Sweep
from hwcheck.notify.config import Notify
from hwcheck.notify.problems import RunProblems, in_short, observe
from hwcheck.notify.tell import tell
from hwcheck.results.files import writing_to
from hwcheck.results.multi_host import read_multi_host
from hwcheck.results.run_folder import OUT_OF_TIME, RunFolder, read_run
from hwcheck.run.multi_host.orders import MultiHostOptions
from hwcheck.run.plan import Plan, make_plan
from hwcheck.scheduler.actions import all_states
from hwcheck.sweep.batches import Places, Queue
from hwcheck.sweep.candidates import Candidate, VisitHistory, candidates
from hwcheck.sweep.cut_off import close_run, cut_off_runs, runs_of_sweep
from hwcheck.sweep.draining import Drained, DrainFailed, drain_failed
from hwcheck.sweep.drains import to_drain, why_not_released
from hwcheck.sweep.incidents import repeated
from hwcheck.sweep.levels import DAY_S, LEVELS, Level
from hwcheck.sweep.links import LinkCoverage, Records, coverage_text, late_hosts, links_of
from hwcheck.sweep.measuring import Measuring
from hwcheck.sweep.night import (
    LevelResult,
    after,
    busy_hosts,
    done_in,
    ended,
    known_past,
    late_text,
    under_way,
    with_hosts,
)
from hwcheck.sweep.state import FOLDER as STATE_FOLDER
from hwcheck.sweep.state import (
    Lock,
    SweepState,
    UnderWay,
    as_text,
    key_of,
    now_utc,
    parsed,
    read_state,
    write_state,
)
from hwcheck.sweep.turns import (
    LevelPlan,
    free_together,
    refuse_what_never_fits,
    shortfall,
    together_s,
    turns,
)
from hwcheck.sweep.visits import PastVisit, Runs, read_runs
from hwcheck.tasks.flags import USUAL, select
from hwcheck.tasks.golden import golden_of
from hwcheck.tasks.index_page import write_index
from hwcheck.tasks.interrupts import Interrupts
from hwcheck.tasks.outcome import show
from hwcheck.tasks.output import say
from hwcheck.tasks.progress import Progress
from hwcheck.tasks.scope import run_multi_host
from hwcheck.tasks.second_visit import make_second_visits
from hwcheck.tasks.site_option import payload_files, save_site, site_hashes

LOOK_BACK = 2
"""So many times the longest ``at_latest`` is the history looked through."""


@dataclass(frozen=True)
class SweepRequest:
    """What ``sweep run`` was asked for; ``whole``: about all hosts of the inventory."""

    cluster: Cluster
    levels: tuple[Level, ...]
    budget_s: float
    runs: Path
    whole: bool
    drained: bool
    accept_new_host_keys: bool
    verbose: bool
    notify: Notify | None = None
    drain_failed: DrainFailed | None = None

    @property
    def key(self) -> str:
        """The name of the inventory's files."""
        return key_of(self.cluster.source)

    @property
    def names(self) -> list[str]:
        """The hosts."""
        return [host.name for host in self.cluster.hosts]

    @property
    def places(self) -> Places:
        """Rack and power feed of each host."""
        return {
            host.name: (host.settings.rack, host.settings.power_feed) for host in self.cluster.hosts
        }

    def runs_of(self, level: Level) -> Path:
        """Return where the runs of a level are: those beside jobs would bury the others."""
        return self.runs if level.load else self.runs.with_name(f"{self.runs.name}-{level.name}")


def preview(asked: SweepRequest) -> str:
    """Return who would be measured now, batch by batch, with the reason of each place."""
    lines = [line for turn in turns_now(asked) for line in turn.lines()]
    if asked.drain_failed:
        undrained = read_state(asked.runs, asked.key)[0].undrained
        lines += [f"to be drained: {host}: {why}" for host, why in undrained.items()]
    return "".join(f"{each}\n" for each in lines or ["no host is due"])


def run(asked: SweepRequest) -> int:
    """Sweep, and return the exit code."""
    stop = threading.Event()
    golden_of(asked.cluster.hosts)  # a file that cannot be read is refused before anything else
    what = "sweep run of " + ", ".join(level.name for level in asked.levels)
    built = payload.build(payload_files())
    made = turns_now(asked)
    refuse_what_never_fits(made, asked.budget_s)
    with (
        Lock(asked.runs, asked.key, asked.cluster.source, what),
        Interrupts(stop) as interrupts,
    ):
        seen: list[RunProblems] = []
        codes = _end_what_was_cut_off(asked, seen)
        now = now_utc()
        state, problem = read_state(asked.runs, asked.key)
        gone = ""
        if asked.whole:
            state, gone = with_hosts(state, asked.names, now)
        before_it = state.under_way
        current, before = under_way(state, asked.key, now, asked.budget_s)
        for text in filter(None, (problem, gone, before)):
            say(f"hwcheck: {text}")
        for text in filter(None, shortfalls(asked, made)):
            say(f"hwcheck: {text}")
        state = replace(state, under_way=current)
        write_state(asked.runs, asked.key, state)
        until = time.monotonic() + (parsed(current.ends) - now).total_seconds()
        measuring = Measuring(
            lambda: all_states(asked.cluster.hosts),
            lambda text: say(f"hwcheck: {text}"),
            stop,
            built,
        )
        night = _Night(asked, state, current.id, measuring, until, seen)
        parts = [night.part(level) for level in asked.levels]
        interrupts.visits_over()
        if not stop.is_set():
            left = before_it if before_it and before_it.id != current.id else None
            visits = _judge_the_rest(asked, [left, current] if left else [current], seen)
            drained = Drained(undrained=state.undrained)
            if asked.drain_failed:
                drained = _drain_failed(asked, asked.drain_failed, state, current, visits, seen)
            often = _repeated(asked) if any(part.level.load for part in parts) else None
            if asked.notify:
                _tell(asked, asked.notify, current, parts, seen, visits, drained, often)
            state = replace(state, undrained=drained.undrained)
            write_state(asked.runs, asked.key, after(state, parts, now_utc()))
            if any(part.visits and part.level.load for part in parts):
                write_index(asked.runs)
            codes.append(NOT_MEASURED if drained.why_not else PASS)
    return combine([*codes, *(part.exit_code for part in parts)])


def _judge_the_rest(
    asked: SweepRequest, sweeps: Sequence[UnderWay], seen: list[RunProblems]
) -> list[PastVisit]:
    """Judge again what sweeps had measured before they were cut off; return all their visits.

    Visits are in the order in which their runs began, and so is what was ``seen`` then.
    """
    if not asked.notify and not asked.drain_failed:
        return []
    visits: list[PastVisit] = []
    judged = {each.run for each in seen}
    folders = {asked.runs_of(level): level for level in asked.levels}
    for runs, level in folders.items():
        paths = [path for each in sweeps for path in runs_of_sweep(runs, each.id, each.began)]
        visits += _read(asked, level, [path.name for path in paths]).visits if paths else []
        for path in paths:
            if path.name not in judged:
                try:
                    show(path, as_json=False, assessed=lambda each: seen.append(observe(each)))
                except UsageError as error:
                    say(f"hwcheck: {error}; nobody is told of it")
    seen.sort(key=lambda each: each.run)
    return sorted(visits, key=lambda each: each.run)


def _drain_failed(
    asked: SweepRequest,
    wanted: DrainFailed,
    state: SweepState,
    sweep: UnderWay,
    visits: Sequence[PastVisit],
    seen: Sequence[RunProblems],
) -> Drained:
    """Drain the hosts that failed in this sweep, and those that could not be drained before."""
    names = set(asked.names)
    of_others = {host: why for host, why in state.undrained.items() if host not in names}
    past = all_visits(asked) if state.undrained else []
    former = {
        host: why
        for host, why in state.undrained.items()
        if why_not_released(why, [visit for visit in past if visit.host == host])
    }
    evidence = to_drain(former, visits, in_short(seen))
    evidence = {host: why for host, why in evidence.items() if host in names}
    recent = {visit.run for visit in visits if visit.sweep == sweep.id}
    drained = drain_failed(asked.cluster.hosts, asked.runs, wanted, evidence, recent)
    for text in drained.lines:
        say(f"hwcheck: {text}")
    if wanted.dry_run:
        return replace(drained, undrained=state.undrained)
    return replace(drained, undrained={**of_others, **drained.undrained})


def _tell(
    asked: SweepRequest,
    notify: Notify,
    sweep: UnderWay,
    parts: Sequence[LevelResult],
    seen: Sequence[RunProblems],
    visits: Sequence[PastVisit],
    drained: Drained,
    often: Mapping[str, str] | None,
) -> None:
    """Tell people what changed with this sweep, and say what could not be told."""
    of_sweep = [visit for visit in visits if visit.sweep == sweep.id]
    at_a_level = [visit for visit in of_sweep if visit.level]
    measured = {visit.host for visit in at_a_level if visit.measured_at(visit.level)}
    paths = {_folder_of(asked, visit): None for visit in of_sweep}
    acts = asked.drain_failed is not None and not asked.drain_failed.dry_run
    folder = asked.runs / STATE_FOLDER / asked.key
    with writing_to(asked.runs):
        folder.mkdir(parents=True, exist_ok=True)
    lines = tell(
        notify,
        folder,
        Sweep(
            sweep.id,
            {part.level.name: part.level.every_s for part in parts},
            asked.cluster.source,
            sweep.began,
            as_text(now_utc()),
            tuple(asked.names),
            len(measured),
            {host: int(age_s // DAY_S) for part in parts for host, age_s in part.late.items()},
            _late_links(parts),
            often,
            tuple(map(str, paths)),
            drained.now,
            drained.why_not if acts else None,
        ),
        seen,
    )
    for text in lines:
        say(f"hwcheck: {text}")


def _repeated(asked: SweepRequest) -> dict[str, str]:
    """Return, and say, on which hosts the driver reports faults again and again, and when."""
    folders = {asked.runs_of(level): level for level in LEVELS.values()}
    faults = [each for level in folders.values() for each in _read(asked, level).faults]
    of_all = repeated(faults, now_utc())
    often = {host: of_all[host] for host in asked.names if host in of_all}
    for host, why in often.items():
        say(f"hwcheck: {host}: the driver reports faults again and again: {why}")
    return often


def _folder_of(asked: SweepRequest, visit: PastVisit) -> Path:
    """Return the run folder of a visit of a sweep; those over several hosts are of no level."""
    runs = asked.runs_of(LEVELS[visit.level]) if visit.level else asked.runs
    return runs / visit.run


def _late_links(parts: Sequence[LevelResult]) -> dict[str, str] | None:
    """Return the hosts of which links are late, each with which; None where no level had a look."""
    if not any(part.level.scopes for part in parts):
        return None
    return {host: why for part in parts for host, why in part.late_links.items()}


def _end_what_was_cut_off(asked: SweepRequest, seen: list[RunProblems]) -> list[int]:
    """Judge the runs of a sweep that was killed, and return their exit codes."""
    codes = []
    for runs in dict.fromkeys(map(asked.runs_of, LEVELS.values())):
        for path in cut_off_runs(runs, asked.key):
            if close_run(path):
                say(f"hwcheck: {path} was cut off; what it measured:")
                codes.append(
                    show(path, as_json=False, assessed=lambda each: seen.append(observe(each)))
                )
    return codes


def turns_now(asked: SweepRequest) -> list[LevelPlan]:
    """Return what a sweep would do now."""
    now = now_utc()
    state, _ = with_hosts(read_state(asked.runs, asked.key)[0], asked.names, now)
    states = all_states(asked.cluster.hosts)
    pasts, links = {}, {}
    for level in asked.levels:
        read = _read(asked, level)
        pasts[level.name] = past = known_past(state, asked.names, read.visits, states)
        if level.scopes:
            links[level.name] = links_of(level, asked.places, read.together, past.first_seen)
    return turns(
        *(asked.levels, pasts, asked.names, states, asked.places, now, asked.budget_s, links),
        drained=asked.drained,
    )


def shortfalls(asked: SweepRequest, made: Sequence[LevelPlan]) -> Iterator[str]:
    """Yield why hosts, or links between them, cannot all be measured in the stated time."""
    for turn in made:
        yield shortfall(turn.level, turn.due, len(asked.names), asked.budget_s)
        if turn.level.scopes:
            yield LinkCoverage(turn.level, asked.places, {}, {}).shortfall()


def all_visits(asked: SweepRequest) -> list[PastVisit]:
    """Return the visits of all runs as far back as matters, in the order of the runs."""
    folders = {asked.runs_of(level): level for level in LEVELS.values()}
    visits = [visit for level in folders.values() for visit in _read(asked, level).visits]
    return sorted(visits, key=lambda each: each.run)


def _read(asked: SweepRequest, level: Level, only: Sequence[str] = ()) -> Runs:
    """Return what ``only`` some runs tell, or all as far back as matters."""
    look_back_s = LOOK_BACK * max(each.at_latest_s for each in asked.levels)
    every = registry.load()
    return read_runs(
        asked.runs_of(level),
        now_utc() - timedelta(seconds=look_back_s),
        {each.name: checks_of(each) for each in LEVELS.values()},
        [name for name, check in every.items() if check.load],
        only,
    )


def checks_of(level: Level) -> tuple[str, ...]:
    """Return the checks of a level."""
    every = registry.load()
    usual = USUAL if level.profile == "quick" else COLLECTIVES
    names = select(every, None, None, usual=usual)
    return tuple(name for name in names if level.load or not every[name].load)


@dataclass
class _Night:
    """Measures level by level, and judges and reports each. ``until``: time.monotonic."""

    asked: SweepRequest
    state: SweepState
    sweep: str
    measuring: Measuring
    until: float
    seen: list[RunProblems]

    def part(self, level: Level) -> LevelResult:
        """Measure who is due at a level."""
        asked, measuring, now = self.asked, self.measuring, now_utc()
        read = _read(asked, level)
        past = known_past(self.state, asked.names, read.visits, measuring.states())
        done = measuring.visited | done_in(self.sweep, level, read.visits)
        due = candidates([host for host in asked.names if host not in done], level, past, now)
        part = LevelResult(level, tuple(each.host for each in due))
        until = min(self.until, time.monotonic() + level.budget_s)
        if level.scopes and level.together(len(asked.names)) > 1:
            part = self._together(part, due, past, read.together, until)
        if due and measuring.goes_on:
            part = self._one_by_one(part, due, until)
        part = ended(part, past, asked.names, done, now, blind=measuring.blind)
        for text in filter(None, (part.text(), late_text(part))):
            say(f"hwcheck: {text}")
        return part

    def _together(
        self,
        part: LevelResult,
        due: Sequence[Candidate],
        past: VisitHistory,
        records: Records,
        until: float,
    ) -> LevelResult:
        """Let hosts run together, group by group, as long as a class of links is due."""
        level, asked, codes = part.level, self.asked, [part.exit_code]
        end = time.monotonic() + together_s(level, until - time.monotonic(), due)
        links = links_of(level, asked.places, records, past.first_seen)
        while self.measuring.goes_on:
            states, left_s = self.measuring.states(), end - time.monotonic()
            free = free_together(asked.names, past, states, drained=asked.drained)
            group = () if self.measuring.blind else links.next_group(free, left_s, now_utc())
            if not group:
                break
            path, code = self._group(level, group, end)
            codes.append(code)
            before, record = len(links.due(now_utc())), read_multi_host(path)
            records = [*records, (now_utc(), record)] if record else records
            links = links_of(level, asked.places, records, past.first_seen)
            if len(links.due(now_utc())) >= before:
                break  # this night will not get any further
        if text := coverage_text(links, now_utc()):
            say(f"hwcheck: {text}")
        late = late_hosts(links.late(now_utc()), level, asked.places)
        return replace(part, exit_code=combine(codes), late_links=late)

    def _group(self, level: Level, group: Sequence[str], until: float) -> tuple[Path, int]:
        """Let hosts run together; return the run folder and the exit code."""
        plan = self._plan(level, group, ())
        with self.measuring.watch(group, until) as watch:
            connector = self._connector(plan, watch.ends)
            folder = self._folder(level, plan)
            run_multi_host(
                *(level.scopes, MultiHostOptions(), plan, self.measuring.payload, folder),
                connector.lasting(),
                verbose=self.asked.verbose,
            )
            for host, why in watch.given_up.items():
                if why != OUT_OF_TIME:
                    say(f"hwcheck: {host}: {why}")
        folder.finish(interrupted=watch.ends.is_set())
        return folder.path, self._show(folder)

    def _one_by_one(self, part: LevelResult, due: Sequence[Candidate], until: float) -> LevelResult:
        level, asked = part.level, self.asked
        plan = self._plan(level, [each.host for each in due], checks_of(level))
        connector = self._connector(plan, self.measuring.stop)
        queue = Queue(due, level, len(asked.names), asked.places, drained=asked.drained)
        forks = level.at_once(len(asked.names))
        with Progress(len(due), forks=forks, verbose=asked.verbose) as progress:
            folder = self.measuring.batches(
                *(queue, plan, lambda: self._folder(level, plan), connector, until, progress),
                load=level.load,
            )
        if folder is None:
            return replace(part, kept_out=queue.kept_out)
        left_s = until - time.monotonic()
        if left_s > level.visit_s:
            with self.measuring.watch([host.name for host in plan.hosts], until) as watch:
                watch.look()
                make_second_visits(
                    *(plan, self.measuring.payload, folder, connector.lasting(left_s)),
                    forks=level.at_once(len(asked.names)),
                    verbose=asked.verbose,
                    given_up=watch.given_up,
                )
        folder.finish(interrupted=self.measuring.stop.is_set(), hosts=self.measuring.visited)
        code = self._show(folder)
        return replace(
            part,
            visits=tuple(_read(asked, level, (folder.path.name,)).visits),
            refused=busy_hosts(read_run(folder.path).records),
            kept_out=queue.kept_out,
            exit_code=combine([part.exit_code, code]),
        )

    def _plan(self, level: Level, names: Sequence[str], checks: tuple[str, ...]) -> Plan:
        hosts = tuple(host for host in self.asked.cluster.hosts if host.name in set(names))
        return make_plan(
            replace(self.asked.cluster, hosts=hosts),
            checks,
            level.profile,
            payload_sha256=self.measuring.payload.sha256,
            site=site_hashes(),
            sweep={"id": self.sweep, "level": level.name},
        )

    def _connector(self, plan: Plan, stop: threading.Event) -> Connector:
        deadlines = replace(Deadlines(), run_s=plan.timeout_s)
        accept = self.asked.accept_new_host_keys
        connector = Connector(deadlines, stop, accept_new_host_keys=accept)
        connector.prepare(plan.hosts)
        return connector

    def _folder(self, level: Level, plan: Plan) -> RunFolder:
        folder = RunFolder.create(self.asked.runs_of(level), plan.meta)
        save_site(folder.path)
        folder.write_golden(golden_of(plan.hosts))
        return folder

    def _show(self, folder: RunFolder) -> int:
        return show(
            folder.path, as_json=False, assessed=lambda each: self.seen.append(observe(each))
        )
