"""Several runs of one program as one record."""

from dataclasses import replace

import pytest

from hwcheck.contract.wire import Leg, SizeTiming
from hwcheck.node.nccl_tests.outcome import together


def size(bytes_, time_us, wrong=0, in_place=None):
    algbw = bytes_ / time_us / 1e3
    return SizeTiming(bytes_, 20, time_us, None, 0.02, algbw, algbw * 1.5, wrong, in_place=in_place)


def turn(*sizes, **changes):
    made = Leg("all_reduce", "default", "nccl", 4, "done", sizes=sizes, duration_s=3.0)
    return replace(made, **changes)


def test_the_turn_in_the_middle_is_the_figure_and_the_others_say_how_far_it_drifts():
    times = (120.0, 100.0, 110.0)
    leg = together([turn(size(1000, 10.0), size(2000, time_us)) for time_us in times])
    small, large = leg.sizes
    assert (small.size_bytes, small.passes, small.pass_spread) == (1000, 3, 0.0)
    assert (large.time_us, large.passes, large.iterations) == (110.0, 3, 60)
    assert large.pass_spread == pytest.approx(20 / 110)
    assert large.busbw_gbps == pytest.approx(2000 / 110 / 1e3 * 1.5)
    assert leg.duration_s == 9.0


def test_wrong_elements_are_those_of_the_worst_turn_in_both_halves():
    turns = [turn(size(1000, 10.0, n, size(1000, 11.0, m))) for n, m in ((2, 0), (5, 1), (0, 4))]
    (found,) = together(turns).sizes
    assert (found.wrong, found.in_place.wrong, found.in_place.passes) == (5, 4, 3)


def test_one_turn_is_itself():
    only = turn(size(1000, 10.0), notes=("a note",))
    assert together([only]) == only


def test_a_turn_that_broke_is_what_the_leg_came_to_and_what_was_timed_is_kept():
    broken = turn(state="hang", reason="killed after 3 s", notes=("b",), log_tail="end")
    leg = together([turn(size(1000, 10.0), notes=("a",)), broken])
    assert (leg.state, leg.reason, leg.log_tail) == ("hang", "killed after 3 s", "end")
    assert ([each.size_bytes for each in leg.sizes], leg.notes) == ([1000], ("b",))
