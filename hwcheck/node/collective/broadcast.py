"""broadcast: every rank ends with rank 0's data."""

from __future__ import annotations

from typing import Any

from hwcheck.node.collective.operation import IN_PLACE, Operation
from hwcheck.node.collective.runtime import dist


def busbw_factor(_ranks: int) -> float:
    """Return 1 (NVIDIA/nccl-tests, src/broadcast.cu, BroadcastGetBw)."""
    return 1.0


def run(_source: Any, target: Any, _rank: int, _ranks: int) -> None:
    """Send from rank 0, in place: torch offers no other way."""
    dist.broadcast(target, 0)


broadcast = Operation(
    "broadcast",
    busbw_factor,
    lambda data, rank, round_: [data.copied(rank, round_)],
    lambda data, _, round_: [data.copied(0, round_)],
    run,
    by_rank=False,
    placement=IN_PLACE,
)
