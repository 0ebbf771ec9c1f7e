import pytest

pytest.importorskip("torch")

from hwcheck.node.collective.reduce_scatter import reduce_scatter
from tests.node.collective.simulated import COUNT, Ranks, summed


@pytest.mark.parametrize("ranks", range(1, 17))
def test_busbw_factor_by_nccl_tests(ranks: int) -> None:
    assert reduce_scatter.busbw_factor(ranks) == pytest.approx((ranks - 1) / ranks)


def total(ranks: Ranks, chunk: int, round_: int):
    return summed([ranks.sent(rank, round_)[chunk] for rank in range(ranks.of.ranks)])


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
@pytest.mark.parametrize("count", [1, 3, 8])
def test_every_rank_ends_with_its_chunk_of_the_sum(count: int, dtype: str) -> None:
    ranks = Ranks(reduce_scatter, count, dtype)
    assert [ranks.wrong(rank, [total(ranks, rank, 3)], 3) for rank in range(count)] == [0] * count


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_another_ranks_chunk_and_an_earlier_rounds_are_wrong(dtype: str) -> None:
    ranks = Ranks(reduce_scatter, 4, dtype)
    assert ranks.wrong(1, [total(ranks, 2, 3)], 3) == COUNT
    assert ranks.wrong(1, [total(ranks, 1, 2)], 3) == COUNT
    assert ranks.wrong(1, [total(ranks, 1, 3) - ranks.sent(0, 3)[1]], 3) == COUNT
