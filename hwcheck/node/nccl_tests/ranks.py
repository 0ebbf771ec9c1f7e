"""How many ranks a table is of, by its device list and by its own arithmetic."""

from __future__ import annotations

from typing import Optional, Tuple

from hwcheck.node.nccl_tests.records import Table

TYPE_BYTES = {"half": 2, "float": 4, "double": 8, "bfloat16": 2}
PER_RANK = ("all_gather", "reduce_scatter", "alltoall", "gather", "scatter", "alltoallv")
"""Collectives whose busbw is algbw x (n-1)/n (NVIDIA/nccl-tests, doc/PERFORMANCE.md)."""

SLACK = 1e-6  # of what JSON rounds, and of ours


def busbw_factor(collective: str, ranks: int) -> float:
    """Return busbw over algbw (NVIDIA/nccl-tests, doc/PERFORMANCE.md)."""
    if collective == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if collective in PER_RANK else 1.0


def collective_of(table: Table) -> str:
    """Return the collective: by the program's name, else by columns that only one can have.

    Sources: NVIDIA/nccl-tests, src/<collective>.cu. The size is the count times the type's bytes,
    and times the ranks where each gives or takes a part; before 2.13.0 only all_gather had neither
    redop nor root; in-place alltoall is never checked. An empty text where more than one fits.
    """
    name = table.program.rsplit("_perf", 1)[0]
    return name if name and "_perf" in table.program else _by_columns(table)


def _by_columns(table: Table) -> str:
    row = max(table.timed, key=lambda row: row.size_bytes, default=None)
    width = TYPE_BYTES.get(row.dtype.strip()) if row else None
    if not row or not width or not row.count or not table.columns:
        return ""
    whole = row.size_bytes == row.count * width
    reduces = row.redop not in (None, "none")
    if row.root is not None and row.root >= 0:
        return ("reduce" if reduces else "broadcast") if whole else ""
    if reduces:
        return "all_reduce" if whole else "reduce_scatter"
    if row.redop is None:
        return "all_gather" if row.root is None and not whole else ""
    if whole or row.out_of_place is None or row.in_place is None:
        return ""
    if row.out_of_place.wrong is None:
        return ""
    return "alltoall" if row.in_place.wrong is None else "all_gather"


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


def ranks_of(table: Table, collective: str) -> Optional[int]:
    """Return the number of ranks, or None where nothing tells it.

    The arithmetic decides where it allows one number only: a device list may be cut or be another
    run's.
    """
    listed, computed = listed_ranks(table), computed_ranks(table, collective)
    if computed and computed[0] == computed[1]:
        return computed[0]
    if computed and listed is not None and not computed[0] <= listed <= computed[1]:
        return None
    return listed
