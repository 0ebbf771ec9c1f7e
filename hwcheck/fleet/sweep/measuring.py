"""Measures the hosts of a sweep level by level; what the scheduler wants meanwhile is given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from pathlib import Path

from hwcheck.connect.payload import Payload
from hwcheck.errors import UsageError
from hwcheck.exit_codes import BY_OUTCOME, combine
from hwcheck.fleet.accept.golden import golden_of
from hwcheck.fleet.sweep import state as sweep_state
from hwcheck.fleet.sweep.availability import States
from hwcheck.fleet.sweep.batches import Queue, anywhere
from hwcheck.fleet.sweep.candidates import Candidate, VisitHistory, candidates
from hwcheck.fleet.sweep.levels import Level
from hwcheck.fleet.sweep.links import Records, coverage_text, late_hosts, links_of
from hwcheck.fleet.sweep.night import (
    LevelResult,
    busy_hosts,
    ended,
    late_text,
    visit_history,
    visits_in,
)
from hwcheck.fleet.sweep.plans import free_together, together_s
from hwcheck.fleet.sweep.request import SweepRequest
from hwcheck.fleet.sweep.state import SweepState
from hwcheck.fleet.sweep.watch import SchedulerWatch
from hwcheck.inventory.inventory import Host
from hwcheck.results.multi_host import read_multi_host
from hwcheck.results.options import Options
from hwcheck.results.run_folder import OUT_OF_TIME, read_run
from hwcheck.run.measure import Display, RunLimits, VisitTurn, connector_of, measure
from hwcheck.run.plan import Plan, make_plan
from hwcheck.scheduler.actions import all_states


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
    display: Display
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
            self.display.say(text)
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
            self.display.say(text)
        late = late_hosts(links.late(now), level, request.places)
        return replace(result, exit_code=combine(codes), late_links=late)

    def _group(self, level: Level, group: Sequence[str], until: float) -> tuple[Path, int]:
        """Let hosts run together; return the run folder and the exit code."""
        options = replace(self._options(level), checks=(), scopes=level.scopes)
        with self._watch(group, until) as watch:
            path = self._measure(level, self._plan(options, group), watch.ends)
            for host, why in watch.given_up.items():
                if why.code != OUT_OF_TIME.code:
                    self.display.say(f"{host}: {why}")
        return path, self.judge(path)

    def _hosts(self, result: LevelResult, due: Sequence[Candidate], until: float) -> LevelResult:
        """Measure each host by itself, then once more what lies on a border; judge them."""
        level, request = result.level, self.request
        plan = self._plan(self._options(level), [each.host for each in due])
        hosts = len(request.names)
        queue = Queue(due, level, hosts, request.places, drained=request.drained)
        limits = BatchByBatch(self, level, queue, plan, until)
        path = self._measure(level, plan, self.stop, limits) if limits.anybody else None
        result = replace(result, kept_out=queue.kept_out)
        if path is None:
            return result
        code = self.judge(path)
        return replace(
            result,
            visits=tuple(request.read(level, (path.name,)).visits),
            refused=busy_hosts(read_run(path).records),
            exit_code=combine([result.exit_code, code]),
        )

    def batches(self, level: Level, queue: Queue, plan: Plan, until: float) -> Iterator[VisitTurn]:
        """Yield the hosts in line, as long as there is time.

        The scheduler is asked before each batch, and while one is under way.
        """
        hosts = {host.name: host for host in plan.hosts}
        while queue.waiting and self._goes_on:
            states = self._states()
            left_s = until - time.monotonic()
            batch = () if self.blind else queue.next(states, left_s)
            if not batch:
                break
            chosen = [hosts[each.host] for each in batch]
            with self._watch([host.name for host in chosen], until, load=level.load) as watch:
                yield VisitTurn(chosen, len(chosen), plan.timeout_s, watch.given_up)
            self.visited |= {host.name for host in chosen}

    def again(self, level: Level, hosts: Sequence[Host], until: float) -> Iterator[VisitTurn]:
        """Yield hosts for their second visits, where there is time for a visit."""
        left_s = until - time.monotonic()
        if left_s > level.visit_s:
            with self._watch([host.name for host in hosts], until) as watch:
                watch.look()
                at_once = level.at_once(len(self.request.names))
                at_once = anywhere(self.request.places, at_once)
                yield VisitTurn(hosts, at_once, left_s, watch.given_up)

    def _measure(
        self, level: Level, plan: Plan, stop: threading.Event, limits: RunLimits | None = None
    ) -> Path:
        connector = connector_of(plan.options, stop)
        connector.prepare(plan.hosts)
        return measure(plan, self.request.runs_of(level), connector, self.display, limits)

    def _ask(self) -> States:
        return all_states(self.request.cluster.hosts)

    def _states(self) -> States:
        """Return what the schedulers say; nothing, and ``blind``, where one does not answer."""
        if self.blind:
            return {}
        try:
            return self._ask()
        except UsageError as error:
            self.display.say(f"{error}; no further host is measured")
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

    def _options(self, level: Level) -> Options:
        return self.request.options(level, self.sweep)

    def _plan(self, options: Options, names: Sequence[str]) -> Plan:
        request = self.request
        hosts = tuple(host for host in request.cluster.hosts if host.name in set(names))
        cluster, golden = replace(request.cluster, hosts=hosts), golden_of(hosts)
        return make_plan(options, cluster, self.payload, site=request.site, golden=golden)


class BatchByBatch(RunLimits):
    """The limits of a level's part of a sweep: its hosts come batch by batch, while there is time.

    ``anybody`` is whether there is a first batch, which is looked for at once.
    """

    def __init__(
        self, measuring: Measuring, level: Level, queue: Queue, plan: Plan, until: float
    ) -> None:
        super().__init__()
        self._measuring, self._level, self._until = measuring, level, until
        self._turns = measuring.batches(level, queue, plan, until)
        self._first = list(islice(self._turns, 1))
        self.anybody = bool(self._first)

    def turns(self, plan: Plan) -> Iterator[VisitTurn]:  # noqa: ARG002 - it was planned with this one
        """Yield the batches."""
        yield from chain(self._first, self._turns)

    def second_turns(self, plan: Plan, hosts: Sequence[Host]) -> Iterator[VisitTurn]:  # noqa: ARG002
        """Yield these hosts, where there is time for a visit."""
        yield from self._measuring.again(self._level, hosts, self._until)
