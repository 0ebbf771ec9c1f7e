"""Calls in daemon threads: side by side, and bounded in time.

A call that is stuck in a driver does not hold up the exit. ``concurrent.futures`` joins its threads
when the interpreter ends, and would wait for it.
"""

from __future__ import annotations

import queue
import threading
from typing import Any, Callable, Iterable, Iterator, List, Optional, Set, Tuple, TypeVar

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.reasons import NO_ANSWER

T = TypeVar("T")
A = TypeVar("A")

_idle: List["queue.SimpleQueue[BackgroundCall]"] = []
"""Threads that wait for their next call, by the queue that they read."""


class UnderWayError(Exception):
    """A call has not ended yet."""


class BackgroundCall:
    """A call that begins at once, in a thread that has nothing else to do."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        self._function, self._args = function, args
        self._answers: queue.SimpleQueue[Tuple[Any, Optional[BaseException]]] = queue.SimpleQueue()
        try:
            orders = _idle.pop()
        except IndexError:
            orders = queue.SimpleQueue()
            threading.Thread(target=_work, args=(orders,), daemon=True).start()
        orders.put(self)

    def result(self, timeout_s: Optional[float] = None) -> Any:
        """Return what the call returned or raise what it raised; to be asked once.

        Raises UnderWayError when it takes longer.
        """
        try:
            value, error = self._answers.get(timeout=timeout_s)
        except queue.Empty:
            raise UnderWayError from None
        if error is not None:
            raise error
        return value

    def give_up(self, error: Exception) -> None:
        """Let whoever waits for the call get this error instead; the call itself goes on."""
        self._answers.put((None, error))

    def run(self) -> Tuple[Any, Optional[BaseException]]:
        """Make the call."""
        try:
            return self._function(*self._args), None
        except BaseException as error:  # handed to whoever asked for the call
            return None, error

    def answer(self, answer: Tuple[Any, Optional[BaseException]]) -> None:
        """Hand over what ``run`` returned."""
        self._answers.put(answer)


def side_by_side(work: Callable[[A], T], items: Iterable[A]) -> Iterator[T]:
    """Yield ``work(item)`` of each item in order; all of them run at the same time."""
    for job in [BackgroundCall(work, item) for item in items]:
        yield job.result()


def _work(orders: "queue.SimpleQueue[BackgroundCall]") -> None:
    while True:
        job = orders.get()
        answer = job.run()
        _idle.append(orders)  # before the answer: who gets it may have the next call at once
        job.answer(answer)


class Bounded:
    """Runs calls in threads of their own: those of several threads at the same time.

    A call that takes longer than ``timeout_s``, or than a bound of its own, is given up. A thread
    stuck in a driver cannot be ended, and others would hang beside it: from then on every call
    fails at once, those that are under way too, so that nobody waits for longer than one bound in
    all.
    """

    def __init__(self, name: str, timeout_s: float) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._thread = threading.local()
        self._under_way: Set[BackgroundCall] = set()
        self.hung = ""
        """What is said of every call after one that hung; empty until then."""

    def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(*args)`` or raise what it raises.

        Raises CouldNotMeasure when it does not answer in time, and at once after such a call. A
        call that is made by a call belongs to it, and so to its bound.
        """
        return self.call_within(self._timeout_s, function, *args)

    def call_within(self, timeout_s: float, function: Callable[..., Any], *args: Any) -> Any:
        """Return ``function(*args)`` with a bound of its own. Raises as ``call`` does."""
        if getattr(self._thread, "calling", False):
            if self.hung:
                raise CouldNotMeasure(self.hung, NO_ANSWER)
            return function(*args)
        with self._lock:
            if self.hung:
                raise CouldNotMeasure(self.hung, NO_ANSWER)
            job = BackgroundCall(self._run, function, args)
            self._under_way.add(job)
        try:
            return job.result(timeout_s)
        except UnderWayError:
            raise self._give_up(timeout_s) from None
        finally:
            with self._lock:
                self._under_way.discard(job)

    def _run(self, function: Callable[..., Any], args: Tuple[Any, ...]) -> Any:
        self._thread.calling = True
        try:
            return function(*args)
        finally:
            self._thread.calling = False

    def _give_up(self, timeout_s: float) -> CouldNotMeasure:
        with self._lock:
            self.hung = "%s did not answer within %g s" % (self._name, timeout_s)
            for job in self._under_way:
                job.give_up(CouldNotMeasure(self.hung, NO_ANSWER))
        return CouldNotMeasure(self.hung, NO_ANSWER)
