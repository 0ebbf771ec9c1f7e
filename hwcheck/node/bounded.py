"""Calls into a library that may hang: given up after a bound, and never tried again."""

from __future__ import annotations

import queue
import threading
from typing import Any, Callable, Optional, Tuple

from hwcheck.node.check import CouldNotMeasure


class Bounded:
    """Runs calls one after another in one thread of its own.

    A call that takes longer than ``timeout_s`` is given up. A thread stuck in a driver cannot be
    ended, and a second one would hang beside it: from then on every call fails at once.
    """

    def __init__(self, name: str, timeout_s: float) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._calls: queue.SimpleQueue[Tuple[Callable[..., Any], Tuple[Any, ...]]] = (
            queue.SimpleQueue()
        )
        self._answers: queue.SimpleQueue[Tuple[Any, Optional[Exception]]] = queue.SimpleQueue()
        self._started = False
        self.hung = ""
        """What is said of every call after one that hung; empty until then."""

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(*args)`` or raise what it raises.

        Raises CouldNotMeasure when it does not answer in time, and at once after such a call.
        """
        with self._lock:
            if self.hung:
                raise CouldNotMeasure(self.hung)
            if not self._started:
                threading.Thread(target=self._work, daemon=True).start()
                self._started = True
            self._calls.put((function, args))
            try:
                value, error = self._answers.get(timeout=self._timeout_s)
            except queue.Empty:
                self.hung = "%s did not answer within %g s" % (self._name, self._timeout_s)
                raise CouldNotMeasure(self.hung) from None
        if error is not None:
            raise error
        return value

    def _work(self) -> None:
        while True:
            function, args = self._calls.get()
            try:
                answer: Tuple[Any, Optional[Exception]] = (function(*args), None)
            except Exception as error:  # handed to the caller
                answer = (None, error)
            self._answers.put(answer)
