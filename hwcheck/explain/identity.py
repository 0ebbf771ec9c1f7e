"""Which collective a table of nccl-tests is of, and how many ranks it had. Pure."""

from __future__ import annotations

from hwcheck.node.nccl_tests.records import Table, computed_ranks, listed_ranks

TYPE_BYTES = {"half": 2, "float": 4, "double": 8, "bfloat16": 2}


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


def ranks_of(table: Table, collective: str) -> int | None:
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
