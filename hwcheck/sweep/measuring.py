"""Measures hosts of a level, batch by batch; what the scheduler wants meanwhile is given up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from hwcheck.connect.connector import Connector
from hwcheck.connect.payload import Payload
from hwcheck.errors import UsageError
from hwcheck.results.run_folder import RunFolder
from hwcheck.run.fan_out import VisitEvent, fan_out
from hwcheck.run.plan import Plan
from hwcheck.sweep.availability import States
from hwcheck.sweep.batches import Queue
from hwcheck.sweep.watch import SchedulerWatch


@dataclass
class Measuring:
    """The measuring of one sweep.

    ``ask`` returns what the schedulers say of the hosts now, ``say`` is called with a line, and
    ``stop`` ends it all. ``visited`` are the hosts that had their visit, and ``blind`` is whether a
    scheduler did not answer: nobody knows who is at work, so nobody else is measured.
    """

    ask: Callable[[], States]
    say: Callable[[str], None]
    stop: threading.Event
    payload: Payload
    visited: set[str] = field(default_factory=set)
    blind: bool = False

    def states(self) -> States:
        """Return what the schedulers say; nothing, and ``blind``, where one does not answer."""
        if self.blind:
            return {}
        try:
            return self.ask()
        except UsageError as error:
            self.say(f"{error}; no further host is measured")
            self.blind = True
            return {}

    @property
    def goes_on(self) -> bool:
        """Whether a further host may be measured."""
        return not (self.blind or self.stop.is_set())

    def watch(self, hosts: Collection[str], until: float, *, load: bool = True) -> SchedulerWatch:
        """Return what ends the measuring of these hosts at a time, or when they are wanted.

        What does not ``load`` them goes on beside jobs.
        """
        return SchedulerWatch(self.ask if load else dict, hosts, self.stop, until)

    def batches(
        self,
        queue: Queue,
        plan: Plan,
        make_folder: Callable[[], RunFolder],
        connector: Connector,
        until: float,
        progress: Callable[[VisitEvent], None],
        *,
        load: bool,
    ) -> RunFolder | None:
        """Visit the hosts in line, as long as there is time (time.monotonic), into one folder.

        The scheduler is asked before each batch, and while one is under way. Returns None where
        nobody was visited.
        """
        folder = None
        hosts = {host.name: host for host in plan.hosts}
        while queue.waiting and self.goes_on:
            states = self.states()
            left_s = until - time.monotonic()
            batch = () if self.blind else queue.next(states, left_s)
            if not batch:
                break
            folder = folder or make_folder()
            chosen = [hosts[each.host] for each in batch]
            within = connector.lasting(plan.timeout_s)
            with self.watch([host.name for host in chosen], until, load=load) as watch:
                fan_out(
                    *(chosen, plan.requests, self.payload, folder, within),
                    forks=len(chosen),
                    progress=progress,
                    given_up=watch.given_up,
                )
            self.visited |= {host.name for host in chosen}
        return folder
