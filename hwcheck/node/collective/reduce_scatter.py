"""reduce_scatter: every rank ends with its own chunk of the sum of all ranks' data."""

from __future__ import annotations

from typing import Any

from hwcheck.node.collective.operation import BOTH, Operation
from hwcheck.node.collective.runtime import one_of


def busbw_factor(ranks: int) -> float:
    """Return (n-1)/n (NVIDIA/nccl-tests, src/reduce_scatter.cu, ReduceScatterGetBw)."""
    return (ranks - 1) / ranks


def run(source: Any, target: Any, _rank: int, _ranks: int) -> None:
    """Sum and scatter; in place the target is this rank's chunk of the source."""
    one_of("reduce_scatter_single", "reduce_scatter_tensor")(target, source)


reduce_scatter = Operation(
    "reduce_scatter",
    busbw_factor,
    lambda data, rank, round_: [data.summand(rank, each, round_) for each in range(data.ranks)],
    lambda data, rank, round_: [data.total(rank, round_)],
    run,
    by_rank=True,
    placement=BOTH,
)
