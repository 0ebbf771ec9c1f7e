"""all_gather: every rank ends with all ranks' chunks in the order of the ranks."""

from __future__ import annotations

from typing import Any

from hwcheck.node.collective.operation import BOTH, Operation
from hwcheck.node.collective.runtime import one_of


def busbw_factor(ranks: int) -> float:
    """Return (n-1)/n (NVIDIA/nccl-tests, src/all_gather.cu, AllGatherGetBw)."""
    return (ranks - 1) / ranks


def run(source: Any, target: Any, _rank: int, _ranks: int) -> None:
    """Gather; in place the source is this rank's chunk of the target."""
    one_of("all_gather_single", "all_gather_into_tensor")(target, source)


all_gather = Operation(
    "all_gather",
    busbw_factor,
    lambda data, rank, round_: [data.copied(rank, round_)],
    lambda data, _, round_: [data.copied(sender, round_) for sender in range(data.ranks)],
    run,
    by_rank=True,
    placement=BOTH,
)
