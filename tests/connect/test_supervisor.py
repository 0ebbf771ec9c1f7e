from __future__ import annotations

import threading
import time

import pytest

from hwcheck.connect.deadlines import StoppedError, VisitError
from hwcheck.connect.supervisor import Supervisor


def blocked(cut: threading.Event) -> None:
    """Block as a socket does, and fail as one does when it is closed."""
    assert cut.wait(20), "nobody cut this off"
    raise OSError("closed")


def test_a_call_that_is_late_is_cut_off() -> None:
    cut = threading.Event()
    started = time.monotonic()
    with (
        pytest.raises(VisitError, match="session: too late"),
        Supervisor(threading.Event()).bound(0.2, cut.set, "session", "too late"),
    ):
        blocked(cut)
    assert time.monotonic() - started < 5


def test_stop_cuts_off_every_call() -> None:
    stop, cut = threading.Event(), threading.Event()
    supervisor = Supervisor(stop)
    threading.Timer(0.1, stop.set).start()
    with pytest.raises(StoppedError), supervisor.bound(60, cut.set, "session", "late"):
        blocked(cut)
    again = threading.Event()
    with pytest.raises(StoppedError), supervisor.bound(60, again.set, "session", "late"):
        blocked(again)


def test_an_error_in_time_is_the_calls_own() -> None:
    aborted = threading.Event()
    with (
        pytest.raises(OSError, match="mine"),
        Supervisor(threading.Event()).bound(60, aborted.set, "session", "late"),
    ):
        raise OSError("mine")
    assert not aborted.is_set()


def test_a_call_in_time_is_left_alone() -> None:
    supervisor = Supervisor(threading.Event())
    early, late = threading.Event(), threading.Event()
    # Long enough for a busy machine to come back to this thread.
    with supervisor.bound(2, early.set, "session", "late"):
        pass
    with pytest.raises(VisitError), supervisor.bound(2.5, late.set, "session", "late"):
        blocked(late)
    assert not early.is_set(), "its time was over long ago, but so was the call"


def test_an_abort_that_fails_costs_no_other_deadline(capsys: pytest.CaptureFixture[str]) -> None:
    supervisor = Supervisor(threading.Event())
    cut, other = threading.Event(), threading.Event()

    def fail() -> None:
        cut.set()
        raise PermissionError(1, "not\nyours")

    with (
        pytest.raises(VisitError, match="session: late"),
        supervisor.bound(0.1, fail, "session", "late"),
    ):
        blocked(cut)
    with (
        pytest.raises(VisitError, match="run: later"),
        supervisor.bound(0.2, other.set, "run", "later"),
    ):
        blocked(other)
    said = capsys.readouterr().err
    assert said == (
        "hwcheck: session: late; cutting it off failed: PermissionError(1, 'not\\nyours')\n"
    )


def fail_when_cut_off_went_wrong(supervisor: Supervisor) -> None:
    (call,) = supervisor._calls.values()
    end = time.monotonic() + 20
    while not call.problem:
        assert time.monotonic() < end
        supervisor.stop.wait(0.01)
    raise OSError("closed")


def test_what_an_abort_raised_is_part_of_the_error() -> None:
    supervisor = Supervisor(threading.Event())

    def fail() -> None:
        raise PermissionError(1, "not yours")

    with (
        pytest.raises(VisitError, match="session: late; cutting it off failed: PermissionError"),
        supervisor.bound(0.1, fail, "session", "late"),
    ):
        fail_when_cut_off_went_wrong(supervisor)


def test_an_abort_that_hangs_costs_no_other_deadline() -> None:
    supervisor = Supervisor(threading.Event())
    release, other = threading.Event(), threading.Event()

    def hang() -> None:
        release.wait(20)

    with (
        supervisor.bound(0.1, hang, "session", "late"),
        pytest.raises(VisitError),
        supervisor.bound(0.3, other.set, "run", "later"),
    ):
        blocked(other)
    release.set()


def test_the_thread_ends_when_idle_and_starts_again() -> None:
    supervisor = Supervisor(threading.Event())
    with supervisor.bound(60, lambda: None, "session", "late"):
        thread = supervisor._thread
    assert thread is not None
    thread.join(10)
    assert not thread.is_alive()
    cut = threading.Event()
    with pytest.raises(VisitError), supervisor.bound(0.1, cut.set, "session", "late"):
        blocked(cut)
