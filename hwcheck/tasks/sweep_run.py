"""One sweep: who is due is measured batch by batch, each level into one run folder."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from hwcheck.connect import payload
from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.connect.payload import Payload
from hwcheck.errors import UsageError
from hwcheck.exit_codes import NOT_MEASURED, PASS, combine
from hwcheck.history.views import History
from hwcheck.inventory.inventory import Cluster
from hwcheck.node import checks as registry
from hwcheck.node.wire import COLLECTIVES
from hwcheck.notify.changes import Sweep
from hwcheck.notify.config import Notify
from hwcheck.notify.problems import Observed, observe
from hwcheck.notify.tell import tell
from hwcheck.results.files import writing_to
from hwcheck.results.run_folder import RunFolder, read_run
from hwcheck.run.fan_out import fan_out
from hwcheck.run.plan import Plan, make_plan
from hwcheck.scheduler.actions import states as ask_scheduler
from hwcheck.scheduler.records import NodeState
from hwcheck.sweep.availability import States
from hwcheck.sweep.batches import Places, Queue
from hwcheck.sweep.candidates import Candidate, candidates
from hwcheck.sweep.cut_off import close_run, cut_off_runs, runs_of_sweep
from hwcheck.sweep.drains import why_not_released
from hwcheck.sweep.levels import DAY_S, LEVELS, Level
from hwcheck.sweep.night import (
    Part,
    after,
    busy_hosts,
    done_in,
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
from hwcheck.sweep.turns import Turn, refuse_what_never_fits, shortfall, turns
from hwcheck.sweep.visits import Visit, read_visits
from hwcheck.tasks.flags import USUAL, select
from hwcheck.tasks.index_page import write_index
from hwcheck.tasks.interrupts import Interrupts
from hwcheck.tasks.outcome import show
from hwcheck.tasks.output import say
from hwcheck.tasks.progress import Progress
from hwcheck.tasks.second_visit import make_second_visits
from hwcheck.tasks.site_option import payload_files, save_site, site_hashes
from hwcheck.tasks.sweep_draining import Drained, DrainFailed, drain_failed, evidence_of

LOOK_BACK = 2
"""So many times the longest ``at_latest`` is the history looked through."""


@dataclass(frozen=True)
class Asked:
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


def preview(asked: Asked) -> str:
    """Return who would be measured now, batch by batch, with the reason of each place."""
    lines = [line for turn in turns_now(asked) for line in turn.lines()]
    if asked.drain_failed:
        undrained = read_state(asked.runs, asked.key)[0].undrained
        lines += [f"to be drained: {host}: {why}" for host, why in undrained.items()]
    return "".join(f"{each}\n" for each in lines or ["no host is due"])


def run(asked: Asked) -> int:
    """Sweep, and return the exit code."""
    stop = threading.Event()
    what = "sweep run of " + ", ".join(level.name for level in asked.levels)
    built = payload.build(payload_files())
    made = turns_now(asked)
    refuse_what_never_fits(made, asked.budget_s)
    with (
        Lock(asked.runs, asked.key, asked.cluster.source, what),
        Interrupts(stop) as interrupts,
    ):
        seen: list[Observed] = []
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
        for turn in made:
            if text := shortfall(turn.level, turn.due, len(asked.names), asked.budget_s):
                say(f"hwcheck: {text}")
        state = replace(state, under_way=current)
        write_state(asked.runs, asked.key, state)
        until = time.monotonic() + (parsed(current.ends) - now).total_seconds()
        night = _Night(asked, state, current.id, built, stop, until, seen)
        parts = [night.part(level) for level in asked.levels]
        interrupts.visits_over()
        if not stop.is_set():
            left = before_it if before_it and before_it.id != current.id else None
            visits = _judge_the_rest(asked, [left, current] if left else [current], seen)
            drained = Drained(undrained=state.undrained)
            if asked.drain_failed:
                drained = _drain_failed(asked, asked.drain_failed, state, current, visits, seen)
            if asked.notify:
                _tell(asked, asked.notify, current, parts, seen, visits, drained)
            state = replace(state, undrained=drained.undrained)
            write_state(asked.runs, asked.key, after(state, parts, now_utc()))
            if any(part.visits and part.level.load for part in parts):
                write_index(asked.runs)
            codes.append(NOT_MEASURED if drained.why_not else PASS)
    return combine([*codes, *(part.exit_code for part in parts)])


def _judge_the_rest(asked: Asked, sweeps: Sequence[UnderWay], seen: list[Observed]) -> list[Visit]:
    """Judge again what sweeps had measured before they were cut off; return all their visits.

    Visits are in the order in which their runs began, and so is what was ``seen`` then.
    """
    if not asked.notify and not asked.drain_failed:
        return []
    visits: list[Visit] = []
    judged = {each.run for each in seen}
    folders = {asked.runs_of(level): level for level in asked.levels}
    for runs, level in folders.items():
        paths = [path for each in sweeps for path in runs_of_sweep(runs, each.id, each.began)]
        visits += _visits(asked, level, [path.name for path in paths]) if paths else []
        for path in paths:
            if path.name not in judged:
                try:
                    show(path, as_json=False, assessed=lambda each: seen.append(observe(each)))
                except UsageError as error:
                    say(f"hwcheck: {error}; nobody is told of it")
    seen.sort(key=lambda each: each.run)
    return sorted(visits, key=lambda each: each.run)


def _drain_failed(
    asked: Asked,
    wanted: DrainFailed,
    state: SweepState,
    sweep: UnderWay,
    visits: Sequence[Visit],
    seen: Sequence[Observed],
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
    evidence = evidence_of(former, visits, seen)
    evidence = {host: why for host, why in evidence.items() if host in names}
    recent = {visit.run for visit in visits if visit.sweep == sweep.id}
    drained = drain_failed(asked.cluster.hosts, asked.runs, wanted, evidence, recent)
    if wanted.dry_run:
        return replace(drained, undrained=state.undrained)
    return replace(drained, undrained={**of_others, **drained.undrained})


def _tell(
    asked: Asked,
    notify: Notify,
    sweep: UnderWay,
    parts: Sequence[Part],
    seen: Sequence[Observed],
    visits: Sequence[Visit],
    drained: Drained,
) -> None:
    """Tell people what changed with this sweep, and say what could not be told."""
    of_sweep = [visit for visit in visits if visit.sweep == sweep.id]
    measured = {visit.host for visit in of_sweep if visit.measured_at(visit.level)}
    paths = {asked.runs_of(LEVELS[visit.level]) / visit.run: None for visit in of_sweep}
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
            tuple(map(str, paths)),
            drained.now,
            drained.why_not if acts else None,
        ),
        seen,
    )
    for text in lines:
        say(f"hwcheck: {text}")


def _end_what_was_cut_off(asked: Asked, seen: list[Observed]) -> list[int]:
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


def turns_now(asked: Asked) -> list[Turn]:
    """Return what a sweep would do now."""
    state, _ = with_hosts(read_state(asked.runs, asked.key)[0], asked.names, now_utc())
    states = _scheduler_states(asked)
    pasts = {}
    for level in asked.levels:
        visits = _visits(asked, level)
        pasts[level.name] = known_past(state, asked.names, visits, states)
    return turns(
        *(asked.levels, pasts, asked.names, states, asked.places, now_utc(), asked.budget_s),
        drained=asked.drained,
    )


def _scheduler_states(asked: Asked) -> States:
    """Return what their schedulers say of the hosts now. Raises UsageError."""
    by_host: dict[str, NodeState] = {}
    for kind in sorted({host.settings.scheduler for host in asked.cluster.hosts} - {""}):
        its = [host for host in asked.cluster.hosts if host.settings.scheduler == kind]
        by_host |= ask_scheduler(kind, its)
    return by_host


def all_visits(asked: Asked) -> list[Visit]:
    """Return the visits of all runs as far back as matters, in the order of the runs."""
    folders = {asked.runs_of(level): level for level in LEVELS.values()}
    visits = [visit for level in folders.values() for visit in _visits(asked, level)]
    return sorted(visits, key=lambda each: each.run)


def _visits(asked: Asked, level: Level, only: Sequence[str] = ()) -> list[Visit]:
    """Return the visits of ``only`` some runs, or of all as far back as matters, the oldest first.

    A folder that cannot be read is left out, and the history's own commands name it.
    """
    runs = asked.runs_of(level)
    if not runs.is_dir():
        return []
    look_back_s = LOOK_BACK * max(each.at_latest_s for each in asked.levels)
    since = f"{now_utc() - timedelta(seconds=look_back_s):%Y%m%dT%H%M%SZ}"
    recent = only or [name for name in os.listdir(runs) if name >= since]
    every = registry.load()
    checks = {each.name: checks_of(each) for each in LEVELS.values()}
    loads = [name for name, check in every.items() if check.load]
    with History.open(runs, only=recent or [""], kinds=("hosts", "samples")) as history:
        return read_visits(history, checks, loads)


def checks_of(level: Level) -> tuple[str, ...]:
    """Return the checks of a level."""
    every = registry.load()
    usual = USUAL if level.profile == "quick" else COLLECTIVES
    names = select(every, None, None, usual=usual)
    return tuple(name for name in names if level.load or not every[name].load)


@dataclass
class _Night:
    """The measuring itself. ``until`` is when the budget ends (time.monotonic)."""

    asked: Asked
    state: SweepState
    sweep: str
    payload: Payload
    stop: threading.Event
    until: float
    seen: list[Observed]
    visited: set[str] = field(default_factory=set)
    blind: bool = False
    """The scheduler does not answer any more: nobody knows who is at work."""

    def _states(self) -> States:
        try:
            return _scheduler_states(self.asked)
        except UsageError as error:
            say(f"hwcheck: {error}; no further host is measured")
            self.blind = True
            return {}

    def part(self, level: Level) -> Part:
        """Measure who is due at a level, judge and report it."""
        asked, now = self.asked, now_utc()
        visits = _visits(asked, level)
        past = known_past(self.state, asked.names, visits, {} if self.blind else self._states())
        done = self.visited | done_in(self.sweep, level, visits)
        due = candidates([host for host in asked.names if host not in done], level, past, now)
        part = Part(level, tuple(each.host for each in due))
        if due and not self.stop.is_set() and not self.blind:
            part = self._measured(part, due)
        late = {
            host: past.age_s(host, level, now)
            for host in asked.names
            if host not in {*part.measured, *done} and past.is_late(host, level, now)
        }
        unknown = bool(late) or (self.blind and len(part.visits) < len(due))
        code = combine([part.exit_code, NOT_MEASURED if unknown else PASS])
        part = replace(part, exit_code=code, late=late)
        for text in filter(None, (part.text(), late_text(part))):
            say(f"hwcheck: {text}")
        return part

    def _measured(self, part: Part, due: Sequence[Candidate]) -> Part:
        level = part.level
        until = min(self.until, time.monotonic() + level.budget_s)
        plan = self._plan(level, [each.host for each in due])
        deadlines = replace(Deadlines(), run_s=plan.timeout_s)
        connector = Connector(
            deadlines, self.stop, accept_new_host_keys=self.asked.accept_new_host_keys
        )
        connector.prepare(plan.hosts)
        folder, kept_out = self._batches(level, plan, due, connector, until)
        if folder is None:
            return replace(part, kept_out=kept_out)
        left_s = until - time.monotonic()
        if left_s > level.visit_s:
            make_second_visits(
                plan,
                self.payload,
                folder,
                connector.lasting(left_s),
                forks=level.at_once(len(self.asked.names)),
                verbose=self.asked.verbose,
            )
        folder.finish(interrupted=self.stop.is_set(), hosts=self.visited)
        code = show(
            folder.path, as_json=False, assessed=lambda each: self.seen.append(observe(each))
        )
        return replace(
            part,
            visits=tuple(_visits(self.asked, level, (folder.path.name,))),
            refused=busy_hosts(read_run(folder.path).records),
            kept_out=kept_out,
            exit_code=code,
        )

    def _batches(
        self,
        level: Level,
        plan: Plan,
        due: Sequence[Candidate],
        connector: Connector,
        until: float,
    ) -> tuple[RunFolder | None, dict[str, NodeState]]:
        """Visit the hosts that are due, batch by batch, as long as there is time.

        The scheduler is asked again before each batch.
        """
        asked, folder = self.asked, None
        hosts = {host.name: host for host in plan.hosts}
        queue = Queue(due, level, len(asked.names), asked.places, drained=asked.drained)
        with Progress(len(due), verbose=asked.verbose) as progress:
            while queue.waiting and not self.stop.is_set():
                states = self._states()
                left_s = until - time.monotonic()
                batch = () if self.blind else queue.next(states, left_s)
                if not batch:
                    break
                if folder is None:
                    folder = RunFolder.create(asked.runs_of(level), plan.meta)
                    save_site(folder.path)
                chosen = [hosts[each.host] for each in batch]
                within = connector.lasting(min(plan.timeout_s, left_s))
                fan_out(
                    *(chosen, plan.requests, self.payload, folder, within),
                    forks=len(chosen),
                    progress=progress,
                )
                self.visited |= {each.host for each in batch}
        return folder, queue.kept_out

    def _plan(self, level: Level, names: Sequence[str]) -> Plan:
        hosts = tuple(host for host in self.asked.cluster.hosts if host.name in set(names))
        return make_plan(
            replace(self.asked.cluster, hosts=hosts),
            checks_of(level),
            level.profile,
            payload_sha256=self.payload.sha256,
            site=site_hashes(),
            sweep={"id": self.sweep, "level": level.name},
        )
