import pytest

pytest.importorskip("torch")

from hwcheck.node.collective.broadcast import broadcast
from tests.node.collective.simulated import COUNT, Ranks


def test_busbw_is_algbw_by_nccl_tests() -> None:
    assert {broadcast.busbw_factor(ranks) for ranks in range(1, 17)} == {1.0}


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_every_rank_ends_with_rank_0s_data_and_not_with_its_own(dtype: str) -> None:
    ranks = Ranks(broadcast, 4, dtype)
    assert [ranks.wrong(rank, ranks.sent(0, 3), 3) for rank in range(4)] == [0] * 4
    own = [ranks.wrong(rank, ranks.sent(rank, 3), 3) for rank in range(4)]
    assert own == [0, COUNT, COUNT, COUNT]
    assert ranks.wrong(1, ranks.sent(0, 2), 3) == COUNT
