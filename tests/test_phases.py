from hwcheck.phases import VisitError
from hwcheck.results import HOST_STATES


def test_the_phase_says_the_state() -> None:
    assert VisitError("host key", "changed").state == "unreachable"
    assert VisitError("run", "no report").state == "lost"
    assert VisitError("run", "nonsense", "invalid").state == "invalid"
    assert {"unreachable", "lost", "invalid"} <= set(HOST_STATES)


def test_a_reason_is_one_bounded_line() -> None:
    error = VisitError("run", "one\ntwo\t three " + "x" * 5000)
    assert error.reason.startswith("one two three x")
    assert len(error.reason) == 1000
