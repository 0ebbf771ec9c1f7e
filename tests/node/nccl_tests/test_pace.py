"""How far a program comes in its time, on a clock that the tests turn."""

import pytest

from hwcheck.node.nccl_tests import pace

START_S, FIRST_ROW_S, FIRST_S, ALL_S, GRACE_S = 120.0, 30.0, 10.0, 16.0, 5.0
ROW = "%12d        1000     float     sum      -1   10.00    1.00    1.00       0"


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(pace.time, "monotonic", lambda: now[0])
    return now


def paced(largest=4000, cycles=3, seconds=(FIRST_S, ALL_S, GRACE_S), log=lambda: ""):
    shown = []
    made = pace.Pace(
        "all_reduce net", START_S, FIRST_ROW_S, log, seconds, 2, largest, cycles, shown.append
    )
    return made, shown


def rows(made, clock, *steps):
    """Show rows (size, time) and return whether the program went on after each."""
    went_on = []
    for size, now in steps:
        clock[0] = now
        went_on.append(made.goes_on(ROW % size))
    return went_on


def test_the_first_row_starts_the_clock(clock):
    made, shown = paced()
    assert made.goes_on("# a comment") is True
    assert (made.until(), shown) == (100.0 + START_S + FIRST_ROW_S, [])
    assert rows(made, clock, (1000, 200.0)) == [True]
    assert made.until() == 200.0 + ALL_S + GRACE_S
    assert shown == ["all_reduce net 1000 B"]


def test_the_communicator_has_its_own_time_and_what_follows_a_short_one(clock):
    log = [""]
    made, _ = paced(log=lambda: log[0])
    clock[0] = 160.0
    assert made.until() == 100.0 + START_S + FIRST_ROW_S
    log[0] = "x:1:1 [0] NCCL INFO comm 0x5 rank 0 nranks 2 - Init COMPLETE"
    assert made.until() == 160.0 + FIRST_ROW_S
    clock[0] = 170.0
    assert made.until() == 160.0 + FIRST_ROW_S


def test_the_next_row_may_take_twice_as_long_as_it_should(clock):
    made, _ = paced(1 << 22, seconds=(10.0, 10.0, 1.0))
    assert rows(made, clock, (1 << 20, 100.0), (1 << 21, 102.0)) == [True, True]
    assert made.until() == 102.0 + 2 * 2.0 * 2 * pace.NOISE


def test_a_size_that_does_not_fit_is_not_begun(clock):
    made, _ = paced(1 << 23)
    assert rows(made, clock, (1 << 20, 100.0), (1 << 21, 103.0), (1 << 22, 106.0))[:2] == [
        True,
        False,
    ]
    assert made.cut_short
    assert made.stop == "stopped at 4 MiB: the next size does not fit in the time"


def test_after_the_largest_size_the_next_cycle_has_to_fit(clock):
    made, _ = paced()
    # Chunks of 31 bytes: the largest row is a little smaller than what was asked for.
    assert rows(made, clock, (992, 100.0), (1984, 102.0), (3968, 106.0)) == [True, True, True]
    assert rows(made, clock, (992, 107.0), (1984, 109.0), (3968, 113.0)) == [True, True, False]
    assert not made.cut_short
    assert made.stop == "timed 2 times and not 3: another time does not fit in the time"
    assert made.measured_s() == 13.0


def test_after_the_last_cycle_no_time_is_needed(clock):
    made, shown = paced(cycles=1)
    assert rows(made, clock, (1000, 100.0), (2000, 100.1), (4000, 190.0)) == [True] * 3
    assert (made.stop, len(shown)) == ("", 3)


def test_a_single_size_is_a_cycle(clock):
    made, _ = paced(largest=1000)
    assert rows(made, clock, (1000, 100.0), (1000, 101.0), (1000, 102.0)) == [True] * 3
    assert made.stop == ""
