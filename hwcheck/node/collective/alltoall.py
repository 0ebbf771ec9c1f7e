"""alltoall: every rank sends another chunk to every rank."""

from __future__ import annotations

from typing import Any

from hwcheck.node.collective.operation import OUT_OF_PLACE, Operation
from hwcheck.node.collective.runtime import dist


def busbw_factor(ranks: int) -> float:
    """Return (n-1)/n (NVIDIA/nccl-tests, src/alltoall.cu, AlltoAllGetBw)."""
    return (ranks - 1) / ranks


def run(source: Any, target: Any, _rank: int, _ranks: int) -> None:
    """Exchange chunks; there is no way in place."""
    dist.all_to_all_single(target, source)


alltoall = Operation(
    "alltoall",
    busbw_factor,
    lambda data, rank, round_: [
        data.copied(rank * data.ranks + to, round_) for to in range(data.ranks)
    ],
    lambda data, rank, round_: [
        data.copied(sender * data.ranks + rank, round_) for sender in range(data.ranks)
    ],
    run,
    by_rank=True,
    placement=OUT_OF_PLACE,
    max_ranks_bfloat16=15,  # 15 x 15 pairs have data of their own in a period of 251
)
