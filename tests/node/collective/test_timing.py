import pytest

from hwcheck.node.collective.timing import quantile, slowest, summarize


def test_the_slowest_rank_makes_the_time() -> None:
    assert slowest([[1.0, 5.0, 2.0], [3.0, 4.0, 1.0]]) == [3.0, 5.0, 2.0]


def test_ranks_that_timed_different_numbers_of_iterations_are_refused() -> None:
    with pytest.raises(ValueError, match="different numbers"):
        slowest([[1.0, 2.0], [1.0]])


@pytest.mark.parametrize(
    ("share", "wanted"), [(0.0, 10.0), (0.25, 20.0), (0.5, 30.0), (0.95, 48.0), (1.0, 50.0)]
)
def test_quantile_is_linear_between_neighbors(share: float, wanted: float) -> None:
    assert quantile([50.0, 10.0, 40.0, 20.0, 30.0], share) == pytest.approx(wanted)


def test_quantile_of_one_value_is_that_value() -> None:
    assert quantile([7.0], 0.95) == 7.0


def test_summary_on_constructed_numbers() -> None:
    # Rank 1 is the slower one in every iteration but the last: 100, 200, 300, 400, 500 us.
    fast = [90.0, 100.0, 110.0, 120.0, 500.0]
    slow = [100.0, 200.0, 300.0, 400.0, 130.0]
    timing = summarize(3_000_000, [fast, slow], 1.5, wrong=3)
    assert timing.iterations == 5
    assert timing.time_us == 300.0
    assert timing.time_p95_us == pytest.approx(480.0)
    assert timing.spread == pytest.approx((400.0 - 200.0) / 300.0)
    assert timing.algbw_gbps == pytest.approx(10.0)  # 3 MB in 300 us
    assert timing.busbw_gbps == pytest.approx(15.0)
    assert timing.wrong == 3


def test_one_slow_iteration_moves_neither_median_nor_spread() -> None:
    calm = summarize(1000, [[10.0] * 20], 1.0, 0)
    outlier = summarize(1000, [[10.0] * 19 + [9999.0]], 1.0, 0)
    assert (outlier.time_us, outlier.spread) == (calm.time_us, calm.spread)
    assert outlier.time_p95_us > calm.time_p95_us
