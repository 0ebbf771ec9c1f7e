"""How many ranks a table is of, by its device list and by its own arithmetic."""

from __future__ import annotations

from typing import Optional, Tuple

from hwcheck.node.nccl_tests.records import Table

PER_RANK = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "alltoallv")
"""Collectives whose busbw is algbw x (n-1)/n (NVIDIA/nccl-tests, doc/PERFORMANCE.md)."""

SLACK = 1e-6  # of what JSON rounds, and of ours


def busbw_factor(collective: str, ranks: int) -> float:
    """Return busbw over algbw (NVIDIA/nccl-tests, doc/PERFORMANCE.md)."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if collective in PER_RANK else 1.0


def listed_ranks(table: Table) -> Optional[int]:
    """Return the ranks of the device list; lines may be missing, so the last one counts."""
    return max(table.devices) + 1 if table.devices else None


def computed_ranks(table: Table, collective: str) -> Optional[Tuple[int, int]]:
    """Return the fewest and the most ranks that busbw over algbw allows, as far as it tells.

    None where the factor does not depend on the ranks, or the rows contradict each other.
    """
    known = [half.ratio for row in table.timed for half in row.halves if half.ratio]
    if not known or not (collective == "all_reduce" or collective in PER_RANK):
        return None
    low, high = max(each[0] for each in known), min(each[1] for each in known)
    most = 2.0 if collective == "all_reduce" else 1.0
    if low > high + SLACK or high >= most or low < 0:
        return None
    # all_reduce: 2(n-1)/n = r, so n = 2/(2-r); the others: (n-1)/n = r, so n = 1/(1-r).
    fewest, greatest = (most / (most - ratio) for ratio in (low, high))
    first = max(1, int(fewest * (1 - SLACK)) + (fewest % 1 > SLACK))
    last = int(greatest * (1 + SLACK))
    return (first, last) if first <= last else None
