import pytest

pytest.importorskip("torch")

from hwcheck.node.collective.all_gather import all_gather
from tests.node.collective.simulated import COUNT, Ranks


@pytest.mark.parametrize("ranks", range(1, 17))
def test_busbw_factor_by_nccl_tests(ranks: int) -> None:
    assert all_gather.busbw_factor(ranks) == pytest.approx((ranks - 1) / ranks)


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
@pytest.mark.parametrize("count", [1, 3, 8, 63])
def test_every_rank_ends_with_all_chunks_in_their_order(count: int, dtype: str) -> None:
    ranks = Ranks(all_gather, count, dtype)
    gathered = [ranks.sent(rank, 3)[0] for rank in range(count)]
    assert [ranks.wrong(rank, gathered, 3) for rank in range(count)] == [0] * count


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_every_way_of_being_wrong_is_counted(dtype: str) -> None:
    ranks = Ranks(all_gather, 4, dtype)
    first, second, *rest = (ranks.sent(rank, 3)[0] for rank in range(4))
    assert ranks.wrong(0, [second, first, *rest], 3) == 2 * COUNT
    assert ranks.wrong(0, [ranks.sent(0, 2)[0], second, *rest], 3) == COUNT
    assert ranks.wrong(0, [first.roll(256), second, *rest], 3) == COUNT
    first[7] += 1
    assert ranks.wrong(0, [first, second, *rest], 3) == 1
