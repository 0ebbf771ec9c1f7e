import pytest

pytest.importorskip("torch")

from hwcheck.node.collective import pattern
from hwcheck.node.collective.all_reduce import all_reduce
from hwcheck.node.collective.runtime import torch

COUNT = 3 * pattern.PERIOD + 100


@pytest.mark.parametrize("ranks", range(2, 17))
def test_busbw_factor_by_nccl_tests(ranks: int) -> None:
    assert all_reduce.busbw_factor(ranks) == pytest.approx(2 * (ranks - 1) / ranks)


def test_one_rank_has_no_bus_bandwidth() -> None:
    assert all_reduce.busbw_factor(1) == 0.0


def summed(ranks: int, round_: int) -> "torch.Tensor":
    total = torch.zeros(COUNT)
    for rank in range(ranks):
        part = torch.empty(COUNT)
        all_reduce.fill(part, rank, ranks, round_)
        total += part
    return total


@pytest.mark.parametrize("ranks", [1, 2, 8, 16, all_reduce.max_ranks])
def test_the_sum_of_all_ranks_is_exactly_what_is_expected(ranks: int) -> None:
    total = summed(ranks, round_=5)
    assert total.max() < 2**24
    assert all_reduce.count_wrong(total, 0, ranks, 5) == 0


def test_every_way_of_being_wrong_is_counted() -> None:
    good = summed(4, round_=1)
    one_off = good.clone()
    one_off[4321] += 1
    assert all_reduce.count_wrong(one_off, 0, 4, 1) == 1
    nan = good.clone()
    nan[-1] = float("nan")
    assert all_reduce.count_wrong(nan, 0, 4, 1) == 1
    missing_rank = summed(3, round_=1)
    assert all_reduce.count_wrong(missing_rank, 0, 4, 1) == COUNT
    earlier_round = summed(4, round_=0)
    assert all_reduce.count_wrong(earlier_round, 0, 4, 1) == COUNT
    moved = good.roll(1024)
    assert all_reduce.count_wrong(moved, 0, 4, 1) == COUNT
    swapped = good - _part(1) - _part(2) + 2 * _part(1)
    assert all_reduce.count_wrong(swapped, 0, 4, 1) == COUNT


def _part(rank: int) -> "torch.Tensor":
    part = torch.empty(COUNT)
    all_reduce.fill(part, rank, 4, 1)
    return part
