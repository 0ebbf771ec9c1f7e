"""Calls into a library that may hang: given up after a bound, and never tried again."""

from __future__ import annotations

import threading
from typing import Any, Callable, Set, Tuple

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.side_by_side import Job, UnderWayError


class Bounded:
    """Runs calls in threads of their own: those of several threads at the same time.

    A call that takes longer than ``timeout_s`` is given up. A thread stuck in a driver cannot be
    ended, and others would hang beside it: from then on every call fails at once, those that are
    under way too, so that nobody waits for longer than one bound in all.
    """

    def __init__(self, name: str, timeout_s: float) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._thread = threading.local()
        self._under_way: Set[Job] = set()
        self.hung = ""
        """What is said of every call after one that hung; empty until then."""

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(*args)`` or raise what it raises.

        Raises CouldNotMeasure when it does not answer in time, and at once after such a call. A
        call that is made by a call belongs to it, and so to its bound.
        """
        if getattr(self._thread, "calling", False):
            if self.hung:
                raise CouldNotMeasure(self.hung)
            return function(*args)
        with self._lock:
            if self.hung:
                raise CouldNotMeasure(self.hung)
            job = Job(self._run, function, args)
            self._under_way.add(job)
        try:
            return job.result(self._timeout_s)
        except UnderWayError:
            raise self._give_up() from None
        finally:
            with self._lock:
                self._under_way.discard(job)

    def _run(self, function: Callable[..., Any], args: Tuple[Any, ...]) -> Any:
        self._thread.calling = True
        try:
            return function(*args)
        finally:
            self._thread.calling = False

    def _give_up(self) -> CouldNotMeasure:
        with self._lock:
            self.hung = "%s did not answer within %g s" % (self._name, self._timeout_s)
            for job in self._under_way:
                job.give_up(CouldNotMeasure(self.hung))
        return CouldNotMeasure(self.hung)
