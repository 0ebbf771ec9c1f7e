import time
from dataclasses import replace

from hwcheck.connect.deadlines import Deadlines, VisitError
from hwcheck.results.run_folder import HOST_STATES


def test_the_phase_says_the_state() -> None:
    assert VisitError("host key", "changed").state == "unreachable"
    assert VisitError("run", "no report").state == "lost"
    assert VisitError("run", "nonsense", "invalid").state == "invalid"
    assert {"unreachable", "lost", "invalid"} <= set(HOST_STATES)


def test_a_reason_is_one_bounded_line() -> None:
    error = VisitError("run", "one\ntwo\t three " + "x" * 5000)
    assert error.reason.text.startswith("one two three x")
    assert len(error.reason.text) == 1000


def test_no_phase_lasts_longer_than_what_is_left_of_the_visit() -> None:
    begun = replace(Deadlines(), visit_s=3.0).begun()
    assert 2.5 < begun.within(10.0) <= 3.0
    assert begun.within(1.0) == 1.0
    assert replace(begun, end=time.monotonic() - 1).within(10.0) == 0.0
    assert Deadlines().begun().within(10.0) == 10.0
