"""From a table of nccl-tests to what it means. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hwcheck.explain import benchmark_notes as notes
from hwcheck.explain.broken_off import why_no_proof
from hwcheck.explain.identity import collective_of, ranks_of
from hwcheck.explain.records import IN_PLACE, OUT_OF_PLACE, BenchmarkRun
from hwcheck.node.nccl_tests.records import Half, Table, TableRow

TOLERANCES = {"half": 1e-2, "bfloat16": 1e-2, "float": 1e-5, "double": 1e-12}
"""What nccl-tests took for right before 2.13.0, by type (src/common.cu, DeltaMaxValue)."""


def run_of(table: Table, endings: Sequence[str] = (), announced: int | None = None) -> BenchmarkRun:
    """Return what one table says.

    ``endings`` are the messages of an end that its file has, ``announced`` the largest size its
    command asks for, or that fits into memory.
    """
    collective = collective_of(table)
    ranks = ranks_of(table, collective)
    wanted = min(filter(None, (table.max_bytes, announced)), default=None)
    no_proof = why_no_proof(table, endings, wanted)
    state = _state(table, ranks, endings)
    size, busbw, place = _peak(table)
    run = BenchmarkRun(
        collective=collective or None,
        ranks=ranks,
        peak_busbw_gbps=None if state == "single-rank" else busbw,
        peak_place=None if state == "single-rank" else place,
        peak_bytes=size,
        wrong=_wrong(table),
        state=state,
        notes=(),
        table=table,
        no_proof=no_proof,
    )
    texts = notes.of_run(run, endings)
    return replace(run, notes=tuple(dict.fromkeys(texts)))


def runs_of(
    tables: Sequence[Table], endings: Sequence[str] = (), announced: int | None = None
) -> tuple[BenchmarkRun, ...]:
    """Return the runs of a log (see ``run_of``); ``announced`` is of a log with one table.

    Processes that each ran by themselves, told apart by the launcher's prefix, become one.
    """
    largest_bytes = announced if len(tables) == 1 else None
    runs = [run_of(table, endings, largest_bytes) for table in tables]
    alone = [run for run in runs if run.state == "single-rank" and run.table.stream]
    if len({run.table.stream for run in alone}) < 2:
        return tuple(runs)
    first, dropped = alone[0], {id(run) for run in alone[1:]}
    merged = replace(first, notes=(notes.each_alone(len(alone)), *first.notes))
    return tuple(merged if run is first else run for run in runs if id(run) not in dropped)


def _state(table: Table, ranks: int | None, endings: Sequence[str]) -> str:
    if not table.rows and table.damaged:
        return "damaged"
    if not table.rows:
        has_table = bool(table.columns or table.announced)
        return "hang" if has_table and not (table.failures or endings) else "launch-failed"
    if _is_corrupt(table):
        return "corrupt"
    if endings and not table.ended:
        return "launch-failed"
    if ranks == 1:
        return "single-rank"
    return "done" if _is_checked(table) else "unchecked"


def _is_corrupt(table: Table) -> bool:
    if table.bounds_failed or _wrong(table):
        return True
    return any(
        half.delta is not None and half.delta > TOLERANCES.get(row.dtype, 0.0)
        for row, half in _halves(table)
    )


def _is_checked(table: Table) -> bool:
    if table.validation == 0:
        return False
    return any(half.wrong is not None or half.delta is not None for _, half in _halves(table))


def _wrong(table: Table) -> int | None:
    counts = [half.wrong for _, half in _halves(table) if half.wrong is not None]
    if not counts or (table.bounds_failed and not any(counts)):
        return None
    return sum(counts)


def _peak(table: Table) -> tuple[int | None, float | None, str | None]:
    """Return the largest size, the best busbw of its rows, and which of their halves has it."""
    if not table.timed:
        return None, None, None
    size = max(row.size_bytes for row in table.timed)
    rates = [
        (half.busbw_gbps, place)
        for row in table.timed
        if row.size_bytes == size
        for half, place in ((row.out_of_place, OUT_OF_PLACE), (row.in_place, IN_PLACE))
        if half is not None and half.busbw_gbps is not None
    ]
    busbw, place = max(rates, key=lambda rate: rate[0], default=(None, None))
    return size, busbw, place


def _halves(table: Table) -> Iterator[tuple[TableRow, Half]]:
    for row in table.rows:
        for half in row.halves:
            yield row, half
