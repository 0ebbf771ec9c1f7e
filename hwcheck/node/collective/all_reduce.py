"""all_reduce: every rank ends with the sum of all ranks' data."""

from __future__ import annotations

from typing import Any

from hwcheck.node.collective import pattern
from hwcheck.node.collective.operation import Operation
from hwcheck.node.collective.runtime import dist


def busbw_factor(ranks: int) -> float:
    """Return 2(n-1)/n (NVIDIA/nccl-tests, src/all_reduce.cu, AllReduceGetBw)."""
    return 2.0 * (ranks - 1) / ranks


def fill(buffer: Any, rank: int, ranks: int, round_: int) -> None:  # noqa: ARG001
    """Write this rank's summand."""
    pattern.fill(buffer, pattern.row(pattern.weight(rank), round_, buffer.device))


def run(buffer: Any) -> None:
    """Sum in place.

    Repeated without a fill the values grow by the number of ranks each time, up to infinity with
    more than 16 ranks. They never become denormal, so the time of a run does not depend on them.
    """
    dist.all_reduce(buffer)


def count_wrong(buffer: Any, rank: int, ranks: int, round_: int) -> int:  # noqa: ARG001
    """Return how many elements are not the sum over all ranks; exact, tolerance 0."""
    total = sum(pattern.weight(each) for each in range(ranks))
    return pattern.count_wrong(buffer, pattern.row(total, round_, buffer.device))


all_reduce = Operation("all_reduce", pattern.MAX_RANKS, busbw_factor, fill, run, count_wrong)
