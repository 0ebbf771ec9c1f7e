"""One pipeline: from a plan to a finished run folder, whichever command asks for it.

The folder with what goes along, each node by itself, what lies on a border once more, the hosts
together, or training in place of all that; then its end. Judging and showing is for the callers.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hwcheck.connect.connector import Connector
from hwcheck.connect.deadlines import Deadlines
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import Request
from hwcheck.inventory.inventory import Host
from hwcheck.judge.second_visit import legs_on_a_border
from hwcheck.results.options import Options, TrainingOptions
from hwcheck.results.run_folder import RunFolder, read_run
from hwcheck.run.fan_out import VisitEvent, fan_out
from hwcheck.run.multi_host.participants import Participants
from hwcheck.run.multi_host.scope_runner import ScopeRunner
from hwcheck.run.plan import Plan, of_legs
from hwcheck.run.slurm_launcher import SlurmLauncher
from hwcheck.run.training.bench import bench
from hwcheck.text import count


@dataclass(frozen=True)
class Display:
    """How somebody is told how far a run is.

    ``say`` is called with a line, ``detail`` with one that only some want; ``visits`` shows how far
    the visits of so many hosts are, so many at once.
    """

    say: Callable[[str], None]
    detail: Callable[[str], None]
    visits: Callable[[int, int], AbstractContextManager[Callable[[VisitEvent], None]]]


@dataclass(frozen=True)
class VisitTurn:
    """Hosts that are visited now, ``at_once`` of them at a time, each for ``visit_s`` at most.

    ``given_up`` may grow meanwhile (``fan_out``).
    """

    hosts: Sequence[Host]
    at_once: int
    visit_s: float
    given_up: Mapping[str, Reason] = field(default_factory=dict)


class RunLimits:
    """What bounds a run beside its plan; here nothing does, and a sweep has its own.

    What ends it at once is the stop event of its connector. ``visits_over`` is called when no host
    is visited any more.
    """

    def __init__(self, visits_over: Callable[[], None] = lambda: None) -> None:
        self.visits_over = visits_over

    def turns(self, plan: Plan) -> Iterator[VisitTurn]:
        """Yield who is visited, one turn after the other."""
        yield VisitTurn(plan.hosts, plan.options.forks, plan.timeout_s)

    def second_turns(self, plan: Plan, hosts: Sequence[Host]) -> Iterator[VisitTurn]:
        """Yield which of these hosts, of which something lies on a border, are visited again."""
        yield VisitTurn(hosts, plan.options.forks, plan.timeout_s)


def connector_of(options: Options, stop: threading.Event) -> Connector:
    """Return what reaches the hosts of a run; ``stop`` ends all that is under way."""
    if options.launcher == "slurm":
        return SlurmLauncher(Deadlines(), stop)
    return Connector(Deadlines(), stop, accept_new_host_keys=options.accept_new_host_keys)


def measure(
    plan: Plan, runs: Path, connector: Connector, display: Display, limits: RunLimits | None = None
) -> Path:
    """Measure what a plan asks, and return the run folder, which is made under ``runs``.

    The connector has been prepared with the hosts. Raises UsageError where the folder cannot be
    made, and DiskError.
    """
    limits = limits or RunLimits()
    folder = RunFolder.create(runs, plan.meta)
    folder.write_site(plan.site)
    folder.write_golden(plan.golden)
    run = _Measurement(plan, folder, connector, display)
    visited = None
    if plan.options.training:
        run.train(plan.options.training)
    else:
        if plan.options.checks:
            visited = run.visit(limits)
            run.visit_again(limits)
        if plan.options.scopes:
            run.together()
    limits.visits_over()
    folder.finish(interrupted=run.stopped, hosts=visited)
    return folder.path


class _Measurement:
    """The stages of one run."""

    def __init__(
        self, plan: Plan, folder: RunFolder, connector: Connector, display: Display
    ) -> None:
        self._plan = plan
        self._folder = folder
        self._connector = connector
        self._display = display

    @property
    def stopped(self) -> bool:
        """Whether the run was stopped."""
        return self._connector.supervisor.stop.is_set()

    def visit(self, limits: RunLimits) -> set[str]:
        """Visit the hosts, each by itself, and return those that had their turn."""
        plan, visited = self._plan, set[str]()
        with self._display.visits(len(plan.hosts), plan.options.forks) as progress:
            for turn in limits.turns(plan):
                self._fan_out(turn, progress, self._folder)
                visited |= {host.name for host in turn.hosts}
        return visited

    def visit_again(self, limits: RunLimits) -> None:
        """Measure again what cannot be said on which side of a border it is: once, those legs."""
        if self.stopped:
            return
        legs = legs_on_a_border(read_run(self._folder.path))
        on_a_border = [host for host in self._plan.hosts if host.name in legs]
        folder = None
        for turn in limits.second_turns(self._plan, on_a_border) if on_a_border else ():
            hosts = [host for host in turn.hosts if host.name not in turn.given_up]
            if not hosts:
                continue
            amount = count(len(hosts), "host")
            self._display.say(f"measuring again what lies on a border on {amount}")
            folder = folder or self._folder.second_visits()
            requests = {
                host.name: of_legs(self._plan.requests[host.name], legs[host.name])
                for host in hosts
            }
            turn = replace(turn, hosts=hosts)
            with self._display.visits(len(hosts), turn.at_once) as progress:
                self._fan_out(turn, progress, folder, requests)

    def together(self) -> None:
        """Run the scopes over several hosts, and keep what became of them."""
        plan, options = self._plan, self._plan.options
        if self.stopped:
            return
        amount = count(len(plan.hosts), "host")
        self._display.say(f"{', '.join(options.scopes)} over {amount}")
        with self._participants() as members:
            ScopeRunner(
                *(members, options.scopes, self._folder.path, self._display.detail),
                options=options.over_hosts,
            ).run()
        if not options.checks:  # these visits are the hosts' records
            self._keep(members)

    def train(self, options: TrainingOptions) -> None:
        """Time training steps on each node by itself, or on the hosts together."""
        together = bool(self._plan.options.scopes)
        apart = not together or len(self._plan.hosts) == 1
        with self._participants("training", apart=apart) as members:
            if not any(ready.gpus for ready in members.ready.values()):
                options = options.without_gpus()
            path, detail = self._folder.path, self._display.detail
            bench(members, path, options, detail, together=together)
        self._keep(members)

    def _participants(self, work: str = "collectives", *, apart: bool = False) -> Participants:
        plan = self._plan
        return Participants(
            *(plan.hosts, plan.requests, plan.payload, self._within()),
            *(self._folder.append_log, work),
            apart=apart,
        )

    def _keep(self, members: Participants) -> None:
        for answer in members.answers().values():
            self._folder.write_host(answer)

    def _within(self, visit_s: float = math.inf) -> Connector:
        return self._connector.lasting(visit_s, self._plan.timeout_s)

    def _fan_out(
        self,
        turn: VisitTurn,
        progress: Callable[[VisitEvent], None],
        folder: RunFolder,
        requests: Mapping[str, Request] | None = None,
    ) -> None:
        fan_out(
            turn.hosts,
            requests or self._plan.requests,
            *(self._plan.payload, folder, self._within(turn.visit_s)),
            forks=turn.at_once,
            progress=progress,
            given_up=turn.given_up,
        )
