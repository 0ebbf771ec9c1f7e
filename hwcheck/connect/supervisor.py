"""Ends what takes too long: one thread for all visits of a run."""

from __future__ import annotations

import itertools
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from hwcheck.connect.deadlines import StoppedError, VisitError

TICK_S = 0.1


@dataclass
class _Call:
    """A call under way; ``problem`` is what went wrong when it was cut off."""

    end: float
    abort: Callable[[], None]
    name: str
    problem: str = ""

    def cut_off(self) -> None:
        try:
            self.abort()
        except Exception as error:
            self.problem = f"; cutting it off failed: {' '.join(repr(error).split())}"
            sys.stderr.write(f"hwcheck: {self.name}{self.problem}\n")


class Supervisor:
    """Bounds blocking calls that have no bound of their own.

    ``abort`` of a call that is overdue, or under way when the run is stopped, is called from
    another thread; it must make the call raise (it closes the connection). One that raises or
    hangs costs its own call only; what it raised goes to stderr and into that call's error.
    """

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop
        self._lock = threading.Lock()
        self._ids = itertools.count()
        self._calls: dict[int, _Call] = {}
        self._thread: threading.Thread | None = None

    @contextmanager
    def bound(
        self, seconds: float, abort: Callable[[], None], phase: str, late: str
    ) -> Iterator[None]:
        """Run the block for at most ``seconds``.

        An error that the block raises after it was cut off becomes VisitError(phase, late), or
        StoppedError when the run was stopped.
        """
        end = time.monotonic() + seconds
        call = _Call(end, abort, f"{phase}: {late}")
        ticket = self._add(call)
        try:
            yield
        except VisitError:
            raise
        except Exception:
            self.check(phase)
            if time.monotonic() >= end:
                raise VisitError(phase, late + call.problem) from None
            raise
        finally:
            with self._lock:
                self._calls.pop(ticket, None)

    def check(self, phase: str) -> None:
        """Raise StoppedError when the run was stopped."""
        if self.stop.is_set():
            raise StoppedError(phase)

    def _add(self, call: _Call) -> int:
        with self._lock:
            ticket = next(self._ids)
            self._calls[ticket] = call
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, daemon=True)
                self._thread.start()
        return ticket

    def _watch(self) -> None:
        idle_since = time.monotonic()
        while True:
            stopped = self.stop.wait(TICK_S)
            now = time.monotonic()
            with self._lock:
                overdue = {
                    ticket: call
                    for ticket, call in self._calls.items()
                    if stopped or now >= call.end
                }
                for ticket in overdue:
                    del self._calls[ticket]
                if self._calls:
                    idle_since = now
                elif now - idle_since > 1.0:
                    self._thread = None
                    return
            for call in overdue.values():
                _in_thread(call.cut_off)
            if stopped:  # what is added after this is seen within a tick, without spinning
                time.sleep(TICK_S)


def _in_thread(function: Callable[[], None]) -> None:
    try:
        threading.Thread(target=function, daemon=True).start()
    except RuntimeError:  # no thread is to be had: the others wait for it this once
        function()
