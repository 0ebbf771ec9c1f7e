"""Measures the hosts of a sweep level by level; what the scheduler wants meanwhile is given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.connect.payload import Payload
from hwcheck.errors import UsageError
from hwcheck.exit_codes import BY_OUTCOME, combine
from hwcheck.results.multi_host import read_multi_host
from hwcheck.results.run_folder import OUT_OF_TIME, RunFolder, read_run
from hwcheck.run.fan_out import VisitEvent, fan_out
from hwcheck.run.plan import Plan, make_plan
from hwcheck.scheduler.actions import all_states
from hwcheck.sweep import state as sweep_state
from hwcheck.sweep.availability import States
from hwcheck.sweep.batches import Queue, anywhere
from hwcheck.sweep.candidates import Candidate, VisitHistory, candidates
from hwcheck.sweep.levels import Level
from hwcheck.sweep.links import Records, coverage_text, late_hosts, links_of
from hwcheck.sweep.night import (
    LevelResult,
    busy_hosts,
    ended,
    late_text,
    visit_history,
    visits_in,
)
from hwcheck.sweep.plans import free_together, together_s
from hwcheck.sweep.request import SweepRequest
from hwcheck.sweep.stages import Stages
from hwcheck.sweep.state import SweepState
from hwcheck.sweep.watch import SchedulerWatch


@dataclass
class Measuring:
    """The measuring of one sweep, until a time (time.monotonic) or until ``stop`` is set.

    ``judge`` is handed each run folder that is done, and returns its exit code. ``visited`` are the
    hosts that had their visit, and ``blind`` is whether a scheduler did not answer: nobody knows
    who is at work, so nobody else is measured.
    """

    request: SweepRequest
    state: SweepState
    sweep: str
    payload: Payload
    stages: Stages
    judge: Callable[[Path], int]
    stop: threading.Event
    until: float
    visited: set[str] = field(default_factory=set)
    blind: bool = False

    def level(self, level: Level) -> LevelResult:
        """Measure who is due at a level."""
        request, now = self.request, sweep_state.now_utc()
        read = request.read(level)
        past = visit_history(self.state, request.names, read.visits, self._states())
        before = visits_in(self.sweep, level, read.visits)
        done = self.visited | {visit.host for visit in before}
        due = candidates([host for host in request.names if host not in done], level, past, now)
        code = combine(BY_OUTCOME[visit.outcome] for visit in before)
        result = LevelResult(level, tuple(each.host for each in due), exit_code=code)
        until = min(self.until, time.monotonic() + level.budget_s)
        if level.scopes and level.together(len(request.names)) > 1:
            result = self._groups(result, due, past, read.together, until)
        if due and self._goes_on:
            result = self._hosts(result, due, until)
        result = ended(result, past, request.names, done, now, blind=self.blind)
        for text in filter(None, (result.text(), late_text(result))):
            self.stages.say(text)
        return result

    def _groups(
        self,
        result: LevelResult,
        due: Sequence[Candidate],
        past: VisitHistory,
        records: Records,
        until: float,
    ) -> LevelResult:
        """Let hosts run together, group by group, as long as a class of links is due."""
        level, request, codes = result.level, self.request, [result.exit_code]
        end = time.monotonic() + together_s(level, until - time.monotonic(), due)
        links = links_of(level, request.places, records, past.first_seen)
        while self._goes_on:
            states, left_s = self._states(), end - time.monotonic()
            free = free_together(request.names, past, states, drained=request.drained)
            now = sweep_state.now_utc()
            group = () if self.blind else links.next_group(free, left_s, now)
            if not group:
                break
            path, code = self._group(level, group, end)
            codes.append(code)
            now = sweep_state.now_utc()
            before, record = len(links.due(now)), read_multi_host(path)
            records = [*records, (now, record)] if record else records
            links = links_of(level, request.places, records, past.first_seen)
            if len(links.due(now)) >= before:
                break  # this night will not get any further
        now = sweep_state.now_utc()
        if text := coverage_text(links, now):
            self.stages.say(text)
        late = late_hosts(links.late(now), level, request.places)
        return replace(result, exit_code=combine(codes), late_links=late)

    def _group(self, level: Level, group: Sequence[str], until: float) -> tuple[Path, int]:
        """Let hosts run together; return the run folder and the exit code."""
        plan = self._plan(level, group, ())
        with self._watch(group, until) as watch:
            connector = self._connector(plan, watch.ends).lasting()
            folder = self.stages.new_folder(self.request.runs_of(level), plan)
            self.stages.run_together(level, plan, self.payload, folder, connector)
            for host, why in watch.given_up.items():
                if why.code != OUT_OF_TIME.code:
                    self.stages.say(f"{host}: {why}")
        folder.finish(interrupted=watch.ends.is_set())
        return folder.path, self.judge(folder.path)

    def _hosts(self, result: LevelResult, due: Sequence[Candidate], until: float) -> LevelResult:
        """Measure each host by itself, then once more what lies on a border; judge them."""
        level, request = result.level, self.request
        plan = self._plan(level, [each.host for each in due], request.checks[level.name])
        connector = self._connector(plan, self.stop)
        hosts = len(request.names)
        queue = Queue(due, level, hosts, request.places, drained=request.drained)
        with self.stages.progress(len(due), level.at_once(hosts)) as progress:
            folder = self._batches(level, queue, plan, connector, until, progress)
        result = replace(result, kept_out=queue.kept_out)
        if folder is None:
            return result
        left_s = until - time.monotonic()
        if left_s > level.visit_s:
            with self._watch([host.name for host in plan.hosts], until) as watch:
                watch.look()
                self.stages.second_visits(
                    *(plan, self.payload, folder, connector.lasting(left_s)),
                    forks=anywhere(request.places, level.at_once(hosts)),
                    given_up=watch.given_up,
                )
        folder.finish(interrupted=self.stop.is_set(), hosts=self.visited)
        code = self.judge(folder.path)
        return replace(
            result,
            visits=tuple(request.read(level, (folder.path.name,)).visits),
            refused=busy_hosts(read_run(folder.path).records),
            exit_code=combine([result.exit_code, code]),
        )

    def _batches(
        self,
        level: Level,
        queue: Queue,
        plan: Plan,
        connector: Connector,
        until: float,
        progress: Callable[[VisitEvent], None],
    ) -> RunFolder | None:
        """Visit the hosts in line, as long as there is time, into one folder.

        The scheduler is asked before each batch, and while one is under way. Returns None where
        nobody was visited.
        """
        folder = None
        hosts = {host.name: host for host in plan.hosts}
        while queue.waiting and self._goes_on:
            states = self._states()
            left_s = until - time.monotonic()
            batch = () if self.blind else queue.next(states, left_s)
            if not batch:
                break
            folder = folder or self.stages.new_folder(self.request.runs_of(level), plan)
            chosen = [hosts[each.host] for each in batch]
            within = connector.lasting(plan.timeout_s)
            with self._watch([host.name for host in chosen], until, load=level.load) as watch:
                fan_out(
                    *(chosen, plan.requests, self.payload, folder, within),
                    forks=len(chosen),
                    progress=progress,
                    given_up=watch.given_up,
                )
            self.visited |= {host.name for host in chosen}
        return folder

    def _ask(self) -> States:
        return all_states(self.request.cluster.hosts)

    def _states(self) -> States:
        """Return what the schedulers say; nothing, and ``blind``, where one does not answer."""
        if self.blind:
            return {}
        try:
            return self._ask()
        except UsageError as error:
            self.stages.say(f"{error}; no further host is measured")
            self.blind = True
            return {}

    @property
    def _goes_on(self) -> bool:
        """Whether a further host may be measured."""
        return not (self.blind or self.stop.is_set())

    def _watch(self, hosts: Collection[str], until: float, *, load: bool = True) -> SchedulerWatch:
        """Return what ends the measuring of these hosts at a time, or when they are wanted.

        What does not ``load`` them goes on beside jobs.
        """
        return SchedulerWatch(self._ask if load else dict, hosts, self.stop, until)

    def _plan(self, level: Level, names: Sequence[str], checks: tuple[str, ...]) -> Plan:
        cluster = self.request.cluster
        hosts = tuple(host for host in cluster.hosts if host.name in set(names))
        return make_plan(
            replace(cluster, hosts=hosts),
            checks,
            level.profile,
            payload_sha256=self.payload.sha256,
            site=self.request.site,
            sweep={"id": self.sweep, "level": level.name},
        )

    def _connector(self, plan: Plan, stop: threading.Event) -> Connector:
        deadlines = replace(Deadlines(), run_s=plan.timeout_s)
        accept = self.request.accept_new_host_keys
        connector = Connector(deadlines, stop, accept_new_host_keys=accept)
        connector.prepare(plan.hosts)
        return connector
