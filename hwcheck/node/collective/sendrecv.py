"""sendrecv: every rank sends to the next one and receives from the one before, in a ring."""

from __future__ import annotations

from typing import Any

from hwcheck.node.collective.operation import OUT_OF_PLACE, Operation
from hwcheck.node.collective.runtime import dist


def busbw_factor(_ranks: int) -> float:
    """Return 1 (NVIDIA/nccl-tests, src/sendrecv.cu, SendRecvGetBw)."""
    return 1.0


def run(source: Any, target: Any, rank: int, ranks: int) -> None:
    """Send and receive at once, as one group."""
    sent = dist.P2POp(dist.isend, source, (rank + 1) % ranks)
    received = dist.P2POp(dist.irecv, target, (rank - 1) % ranks)
    for work in dist.batch_isend_irecv([sent, received]):
        work.wait()


sendrecv = Operation(
    "sendrecv",
    busbw_factor,
    lambda data, rank, round_: [data.copied(rank, round_)],
    lambda data, rank, round_: [data.copied((rank - 1) % data.ranks, round_)],
    run,
    by_rank=False,
    placement=OUT_OF_PLACE,
    least_ranks=2,
)
