"""all_reduce: every rank ends with the sum of all ranks' data."""

from __future__ import annotations

from typing import Any

from hwcheck.node.collective.operation import IN_PLACE, Operation
from hwcheck.node.collective.runtime import dist


def busbw_factor(ranks: int) -> float:
    """Return 2(n-1)/n (NVIDIA/nccl-tests, src/all_reduce.cu, AllReduceGetBw)."""
    return 2.0 * (ranks - 1) / ranks


def run(_source: Any, target: Any, _rank: int, _ranks: int) -> None:
    """Sum in place: torch offers no other way."""
    dist.all_reduce(target)


all_reduce = Operation(
    "all_reduce",
    busbw_factor,
    lambda data, rank, round_: [data.summand(rank, 0, round_)],
    lambda data, _, round_: [data.total(0, round_)],
    run,
    by_rank=False,
    placement=IN_PLACE,
)
