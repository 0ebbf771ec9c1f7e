import pytest

pytest.importorskip("torch")

from hwcheck.node.collective.alltoall import alltoall
from tests.node.collective.simulated import COUNT, Ranks


@pytest.mark.parametrize("ranks", range(1, 17))
def test_busbw_factor_by_nccl_tests(ranks: int) -> None:
    assert alltoall.busbw_factor(ranks) == pytest.approx((ranks - 1) / ranks)


def got(ranks: Ranks, rank: int, round_: int):
    return [ranks.sent(sender, round_)[rank] for sender in range(ranks.of.ranks)]


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_every_rank_ends_with_the_chunk_that_each_has_for_it(count: int, dtype: str) -> None:
    ranks = Ranks(alltoall, count, dtype)
    assert [ranks.wrong(rank, got(ranks, rank, 3), 3) for rank in range(count)] == [0] * count


@pytest.mark.parametrize(("dtype", "most"), [("float", 63), ("bfloat16", 15)])
def test_no_two_pairs_have_the_same_data(dtype: str, most: int) -> None:
    ranks = Ranks(alltoall, most, dtype)
    assert alltoall.refuses(most, dtype) == ""
    assert f"up to {most} ranks" in alltoall.refuses(most + 1, dtype)
    first = {
        tuple(float(x) for x in period[:2])
        for rank in range(most)
        for period in alltoall.sends(ranks.of, rank, 0)
    }
    assert len(first) == most * most


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_a_chunk_for_or_from_another_rank_is_wrong(dtype: str) -> None:
    ranks = Ranks(alltoall, 4, dtype)
    right = got(ranks, 2, 3)
    assert ranks.wrong(2, [ranks.sent(0, 3)[1], *right[1:]], 3) == COUNT
    assert ranks.wrong(2, right[::-1], 3) == 4 * COUNT
    assert ranks.wrong(2, got(ranks, 2, 2), 3) == 4 * COUNT
