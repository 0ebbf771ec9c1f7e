from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from hwcheck.node import side_by_side as threads
from hwcheck.node.side_by_side import Job, UnderWayError, side_by_side


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
        Job(sys.exit, 3).result(10)
    assert Job(int, "7").result(10) == 7


def test_a_thread_that_is_done_serves_again() -> None:
    first = Job(threading.get_ident).result(10)
    assert threads._idle
    before = threading.active_count()
    assert [Job(threading.get_ident).result(10) for _ in range(50)]
    assert threading.active_count() == before
    assert first != threading.get_ident()


def test_a_call_that_takes_long_can_be_given_up() -> None:
    release = threading.Event()
    try:
        job = Job(release.wait)
        with pytest.raises(UnderWayError):
            job.result(0.01)
        job.give_up(ValueError("enough"))
        with pytest.raises(ValueError, match="enough"):
            job.result(10)
    finally:
        release.set()


def test_a_stuck_call_does_not_hold_up_the_exit() -> None:
    code = (
        "import threading; from hwcheck.node.side_by_side import Job; Job(threading.Event().wait)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=30, check=False).returncode == 0
