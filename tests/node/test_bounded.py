from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator

import pytest

from hwcheck.node.bounded import Bounded
from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.side_by_side import Job


@pytest.fixture
def release() -> Iterator[threading.Event]:
    """Return what a call can hang on until the test is over."""
    event = threading.Event()
    yield event
    event.set()


def test_values_and_errors_come_back() -> None:
    bounded = Bounded("the library", 10)
    assert bounded.call(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        bounded.call(divmod, 7, 0)
    assert bounded.call(divmod, 9, 2) == (4, 1)
    assert bounded.hung == ""


def test_a_call_may_raise_what_looks_like_a_bound() -> None:
    def refuse() -> None:
        raise TimeoutError("of its own")

    bounded = Bounded("the library", 10)
    with pytest.raises(TimeoutError, match="of its own"):
        bounded.call(refuse)
    assert bounded.hung == ""


def test_calls_run_in_a_thread_of_their_own() -> None:
    assert Bounded("the library", 10).call(threading.get_ident) != threading.get_ident()


def test_calls_of_several_threads_run_at_the_same_time() -> None:
    bounded = Bounded("the library", 20)
    together = threading.Barrier(3)
    jobs = [Job(bounded.call, together.wait, 10) for _ in range(3)]
    assert sorted(job.result(20) for job in jobs) == [0, 1, 2]


def test_what_a_call_calls_belongs_to_it(release: threading.Event) -> None:
    bounded = Bounded("the library", 1.0)
    threads = bounded.call(lambda: {threading.get_ident(), bounded.call(threading.get_ident)})
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    again = bounded.call(threading.get_ident)
    assert again != threading.get_ident(), "the control: what follows is a call of its own"

    after, ended = queue.SimpleQueue[Exception](), threading.Event()

    def outer() -> None:
        bounded.call(release.wait)
        try:
            bounded.call(threading.get_ident)
        except CouldNotMeasure as error:
            after.put(error)
        ended.set()

    with pytest.raises(CouldNotMeasure, match="did not answer within 1 s"):
        bounded.call(outer)
    release.set()
    assert ended.wait(10)
    assert "did not answer" in str(after.get(timeout=10)), "given up, it asks no more"


def test_after_a_hang_nothing_is_called_again(release: threading.Event) -> None:
    bounded = Bounded("the library", 0.05)
    called: list[str] = []
    with pytest.raises(CouldNotMeasure, match=r"the library did not answer within 0\.05 s"):
        bounded.call(release.wait)
    started = time.monotonic()
    with pytest.raises(CouldNotMeasure, match="did not answer"):
        bounded.call(called.append, "again")
    assert time.monotonic() - started < 0.05
    assert called == []


def test_a_hang_ends_the_wait_of_every_other_call(release: threading.Event) -> None:
    """Together they wait for one bound: the second began when half of it was over."""
    bounded = Bounded("the library", 1.0)
    began = threading.Event()

    def hang() -> None:
        began.set()
        release.wait()

    started = time.monotonic()
    first = Job(bounded.call, hang)
    assert began.wait(10)
    began.clear()
    assert not release.wait(0.5)
    second = Job(bounded.call, hang)
    assert began.wait(10)
    for job in (first, second):
        with pytest.raises(CouldNotMeasure, match="did not answer within 1 s"):
            job.result(10)
    assert time.monotonic() - started < 1.4
