import pytest

pytest.importorskip("torch")

from hwcheck.node.collective.all_reduce import all_reduce
from tests.node.collective.simulated import COUNT, Ranks, summed


@pytest.mark.parametrize("ranks", range(2, 17))
def test_busbw_factor_by_nccl_tests(ranks: int) -> None:
    assert all_reduce.busbw_factor(ranks) == pytest.approx(2 * (ranks - 1) / ranks)


def test_one_rank_has_no_bus_bandwidth() -> None:
    assert all_reduce.busbw_factor(1) == 0.0


def total(ranks: Ranks, round_: int):
    return summed([ranks.sent(rank, round_)[0] for rank in range(ranks.of.ranks)])


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
@pytest.mark.parametrize("count", [1, 2, 8, 16, all_reduce.max_ranks])
def test_the_sum_of_all_ranks_is_exactly_what_is_expected(count: int, dtype: str) -> None:
    ranks = Ranks(all_reduce, count, dtype)
    assert total(ranks, 5).max() < {"float": 2**24, "bfloat16": 256}[dtype]
    assert ranks.wrong(0, [total(ranks, 5)], 5) == 0


def test_every_way_of_being_wrong_is_counted() -> None:
    ranks = Ranks(all_reduce, 4)
    good = total(ranks, 1)
    one_off = good.clone()
    one_off[4321] += 1
    assert ranks.wrong(0, [one_off], 1) == 1
    nan = good.clone()
    nan[-1] = float("nan")
    assert ranks.wrong(0, [nan], 1) == 1
    missing_rank = good - ranks.sent(3, 1)[0]
    assert ranks.wrong(0, [missing_rank], 1) == COUNT
    assert ranks.wrong(0, [total(ranks, 0)], 1) == COUNT  # an earlier round's
    assert ranks.wrong(0, [good.roll(1024)], 1) == COUNT
    swapped = good - ranks.sent(2, 1)[0] + ranks.sent(1, 1)[0]
    assert ranks.wrong(0, [swapped], 1) == COUNT


def test_a_missing_rank_shows_in_its_share_of_bf16() -> None:
    ranks = Ranks(all_reduce, 4, "bfloat16")
    good = total(ranks, 1)
    assert ranks.wrong(0, [good - ranks.sent(3, 1)[0]], 1) == COUNT
    swapped = good - ranks.sent(2, 1)[0] + ranks.sent(1, 1)[0]
    assert ranks.wrong(0, [swapped], 1) > COUNT / 3  # that of both ranks, less the zeros
    assert ranks.wrong(0, [total(ranks, 0)], 1) == COUNT
    assert ranks.wrong(0, [good.roll(1024)], 1) == COUNT
