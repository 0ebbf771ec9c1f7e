import pytest

pytest.importorskip("torch")

from hwcheck.contract.collective_spec import MIB
from hwcheck.node.collective import rank
from hwcheck.node.collective.rank import LARGEST_MEASURED, Bounds, agree
from hwcheck.node.collective.runtime import dist

BOUNDS = Bounds(share_s=1e12, limit_s=60.0, max_bytes=1024 * MIB)
PLENTY = 10**15


def reason_to_stop(bounds: Bounds, size: int, step_s: float, left_s: float, memory: int) -> str:
    return rank.reason_to_stop(bounds, size, step_s, left_s, memory, 2 * size)


def test_there_is_a_next_size_when_time_and_memory_allow_it() -> None:
    assert reason_to_stop(BOUNDS, 64 * MIB, 1.0, 2.51, PLENTY) == ""


def test_the_next_size_takes_twice_as_long_and_a_margin() -> None:
    reason = reason_to_stop(BOUNDS, 64 * MIB, 1.0, 2.49, PLENTY)
    assert reason == "stopped at 64 MiB: the next size does not fit the time budget"


def test_the_next_size_must_fit_in_memory() -> None:
    assert reason_to_stop(BOUNDS, 64 * MIB, 1.0, 99.0, 128 * MIB) == ""
    reason = reason_to_stop(BOUNDS, 64 * MIB, 1.0, 99.0, 128 * MIB - 1)
    assert reason == "stopped at 64 MiB: the next size does not fit in free memory"


def test_the_time_a_size_takes_grows_with_the_step() -> None:
    assert rank.reason_to_stop(BOUNDS, MIB, 1.0, 5.01, PLENTY, 4 * MIB) == ""
    assert "time budget" in rank.reason_to_stop(BOUNDS, MIB, 1.0, 4.99, PLENTY, 4 * MIB)


def test_the_first_size_must_fit_in_memory_too_and_is_tried_in_any_time() -> None:
    assert rank.reason_to_stop(BOUNDS, 0, 0.0, 0.0, MIB, MIB) == ""
    reason = rank.reason_to_stop(BOUNDS, 0, 0.0, 99.0, MIB - 1, MIB)
    assert reason == "the smallest size, 1 MiB, does not fit in free memory"


def test_the_largest_size_is_the_end() -> None:
    assert reason_to_stop(BOUNDS, 1024 * MIB, 0.0, 99.0, PLENTY) == LARGEST_MEASURED


def test_a_later_leg_says_whose_largest_size_it_stopped_at() -> None:
    bounds = Bounds(1e12, 60.0, 64 * MIB, "stopped at 64 MiB, the largest size of leg default")
    assert "leg default" in reason_to_stop(bounds, 64 * MIB, 0.0, 99.0, PLENTY)


@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        (f"0.1 {PLENTY}", ""),
        (f"1e9 {PLENTY}", "stopped at 1 MiB: the next size does not fit the time budget"),
        ("0.1 1", "stopped at 1 MiB: the next size does not fit in free memory"),
    ],
)
def test_the_slowest_and_the_smallest_rank_decide(other: str, wanted: str) -> None:
    bounds = Bounds(1e6, 60.0, 1024 * MIB)
    store = dist.HashStore()
    store.set(f"took/{MIB}/1", other)
    mine = (MIB, 0.1, PLENTY)
    assert agree(store, 2, 0, bounds, 1e6, mine, 2 * MIB) == wanted
    assert (
        agree(store, 2, 1, bounds, 1e6, mine, 2 * MIB) == wanted
    )  # rank 1 reads what rank 0 decided
