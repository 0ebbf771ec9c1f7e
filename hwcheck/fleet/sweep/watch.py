"""Ends what is measured on hosts that the scheduler wants."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from types import TracebackType

from hwcheck.contract.reasons import Reason
from hwcheck.errors import UsageError
from hwcheck.fleet.sweep.availability import States, is_wanted
from hwcheck.results.run_folder import OUT_OF_TIME, given_up
from hwcheck.scheduler.actions import POLL_S

TICK_S = 0.5


class SchedulerWatch:
    """A context manager: asks the scheduler now and then while these hosts are measured.

    ``given_up`` maps each of them that got a job, or is about to, to why its visit is not to go on;
    it grows meanwhile, and has all of them when the time (time.monotonic) is ``until``. ``ends`` is
    set as soon as one is in it, or ``stop`` is set. A scheduler that does not answer is asked
    again; the nodes say themselves when somebody else is at work on them.
    """

    def __init__(
        self,
        ask: Callable[[], States],
        hosts: Collection[str],
        stop: threading.Event,
        until: float,
        poll_s: float = POLL_S,
    ) -> None:
        self.given_up: dict[str, Reason] = {}
        self.ends = threading.Event()
        self._ask, self._hosts, self._stop = ask, tuple(hosts), stop
        self._until, self._poll_s = until, poll_s
        self._over = threading.Event()
        self._threads = [
            threading.Thread(target=target, daemon=True) for target in (self._look, self._end)
        ]

    def __enter__(self) -> SchedulerWatch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()  # the threads are daemons: a scheduler that hangs keeps nobody waiting

    def look(self) -> None:
        """Ask the scheduler now."""
        try:
            states = self._ask()
        except UsageError:
            return  # it is asked again, and who begins something else hears of it
        for host in self._hosts:
            if host in states and is_wanted(states[host]):
                self.given_up.setdefault(host, given_up(states[host].line()))

    def _look(self) -> None:
        while not self._over.wait(self._poll_s):
            self.look()

    def _end(self) -> None:
        while not self._over.wait(TICK_S):
            if time.monotonic() >= self._until:
                for host in self._hosts:
                    self.given_up.setdefault(host, OUT_OF_TIME)
            if self.given_up or self._stop.is_set():
                self.ends.set()
            if time.monotonic() >= self._until:
                return
