from __future__ import annotations

import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node import threads
from hwcheck.node.threads import BackgroundCall, Bounded, UnderWayError, side_by_side


def test_all_run_at_the_same_time_and_answer_in_order() -> None:
    together = threading.Barrier(8)

    def meet(item: int) -> int:
        together.wait(10)  # broken unless all eight are there
        return item * item

    assert list(side_by_side(meet, range(8))) == [item * item for item in range(8)]
    assert list(side_by_side(meet, [])) == []


def test_one_after_the_other_would_not_meet() -> None:
    """Negative control of the test above."""
    together = threading.Barrier(2)
    with pytest.raises(threading.BrokenBarrierError):
        together.wait(0.05)


def test_what_a_call_raises_is_raised_where_it_is_asked_for() -> None:
    answers = side_by_side(lambda item: 1 / item, [2, 0, 4])
    assert next(answers) == 0.5
    with pytest.raises(ZeroDivisionError):
        next(answers)


def test_a_call_that_ends_the_thread_ends_only_itself() -> None:
    with pytest.raises(SystemExit):
        BackgroundCall(sys.exit, 3).result(10)
    assert BackgroundCall(int, "7").result(10) == 7


def test_a_thread_that_is_done_serves_again() -> None:
    first = BackgroundCall(threading.get_ident).result(10)
    assert threads._idle
    before = threading.active_count()
    assert [BackgroundCall(threading.get_ident).result(10) for _ in range(50)]
    assert threading.active_count() == before
    assert first != threading.get_ident()


def test_a_call_that_takes_long_can_be_given_up() -> None:
    release = threading.Event()
    try:
        job = BackgroundCall(release.wait)
        with pytest.raises(UnderWayError):
            job.result(0.01)
        job.give_up(ValueError("enough"))
        with pytest.raises(ValueError, match="enough"):
            job.result(10)
    finally:
        release.set()


def test_a_stuck_call_does_not_hold_up_the_exit() -> None:
    code = (
        "import threading; from hwcheck.node.threads import BackgroundCall; "
        "BackgroundCall(threading.Event().wait)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0


pytestmark = pytest.mark.urgent


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
    jobs = [BackgroundCall(bounded.call, together.wait, 10) for _ in range(3)]
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


def test_a_call_may_have_a_bound_of_its_own(release: threading.Event) -> None:
    bounded = Bounded("the library", 0.05)
    assert bounded.call_within(10, release.wait, 0.3) is False
    with pytest.raises(CouldNotMeasure, match=r"the library did not answer within 0\.2 s"):
        bounded.call_within(0.2, release.wait)
    assert bounded.hung == "the library did not answer within 0.2 s"


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
    first = BackgroundCall(bounded.call, hang)
    assert began.wait(10)
    began.clear()
    assert not release.wait(0.5)
    second = BackgroundCall(bounded.call, hang)
    assert began.wait(10)
    for job in (first, second):
        with pytest.raises(CouldNotMeasure, match="did not answer within 1 s"):
            job.result(10)
    assert time.monotonic() - started < 1.4
