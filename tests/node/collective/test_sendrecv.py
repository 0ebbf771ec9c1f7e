import pytest

pytest.importorskip("torch")

from hwcheck.node.collective.sendrecv import sendrecv
from tests.node.collective.simulated import COUNT, Ranks


def test_busbw_is_algbw_by_nccl_tests() -> None:
    assert {sendrecv.busbw_factor(ranks) for ranks in range(1, 17)} == {1.0}


def test_one_rank_has_nobody_to_send_to() -> None:
    assert sendrecv.refuses(1, "float") == "sendrecv needs another rank to send to"
    assert sendrecv.refuses(2, "float") == ""


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
def test_every_rank_ends_with_the_data_of_the_one_before(dtype: str) -> None:
    ranks = Ranks(sendrecv, 4, dtype)
    right = [ranks.wrong(rank, ranks.sent((rank - 1) % 4, 3), 3) for rank in range(4)]
    assert right == [0] * 4
    assert ranks.wrong(1, ranks.sent(2, 3), 3) == COUNT  # the ring the other way round
    assert ranks.wrong(1, ranks.sent(1, 3), 3) == COUNT
