"""What a reader of an nccl-tests log has to know beside its figures. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hwcheck.explain.records import IN_PLACE, OUT_OF_PLACE, BenchmarkRun
from hwcheck.node.nccl_tests.records import Table, TableRow, computed_ranks, listed_ranks
from hwcheck.text import binary_size, count, line, number

LARGE_BYTES = 64 * 1024 * 1024
"""From here on a time is bandwidth; below it is latency, and halves differ by chance."""

DIFFERENT = 0.20
BETTER = 0.02
RISING = 0.03
MOST_OUTLIERS = 5


def of_run(run: BenchmarkRun, endings: Sequence[str] = ()) -> Iterator[str]:
    """Yield the notes, what matters most first; ``endings`` are the file's messages of an end."""
    yield from _state_notes(run, endings)
    yield from _rank_notes(run)
    if run.table.timed and run.state != "single-rank":
        yield from _figure_notes(run)
    yield from _form_notes(run)


def each_alone(processes: int) -> str:
    """Say that processes which should have worked together did not."""
    return (
        f"{processes} processes each measured alone: a build without MPI under a launcher of MPI; "
        "build with MPI=1, or start one process with -g"
    )


def _state_notes(run: BenchmarkRun, endings: Sequence[str]) -> Iterator[str]:
    table = run.table
    if run.state == "hang":
        yield (
            "the table has no row: the first collective did not end (a hang, or a crash that left "
            "no message); this is no bandwidth of 0"
        )
    elif run.state == "launch-failed" and table.rows:
        yield f"{run.no_proof}: its figures are of the sizes before, and no proof of a clean run"
    elif run.state == "launch-failed":
        yield "nothing was measured: the launcher or the program failed"
    elif run.state == "damaged":
        why = table.misfit or "other output runs into them, or they are cut"
        yield f"damaged: none of its {count(table.damaged, 'row')} can be read ({why})"
    elif run.state == "single-rank":
        yield "one rank sends nothing: busbw is 0 by arithmetic"
    elif run.state == "unchecked":
        yield "nobody compared the data (-c 0): wrong data would not show"
    elif run.state == "corrupt":
        yield from _corruption(run)
    ends = endings if not table.ended else ()
    for failure in dict.fromkeys((*table.failures[:3], *ends[:3])):
        yield f"it said: {line(failure, 200)}"


def _corruption(run: BenchmarkRun) -> Iterator[str]:
    yield "wrong data: no figure of this run counts, and the path must not be used"
    if run.wrong is None and run.table.bounds_failed:
        yield (
            f"the footer counts {count(run.table.bounds_failed, 'failed check')} (not elements), "
            "and no row says how many elements"
        )


def _rank_notes(run: BenchmarkRun) -> Iterator[str]:
    table = run.table
    listed = listed_ranks(table)
    computed = computed_ranks(table, run.collective or "")
    if computed and listed is not None and not computed[0] <= listed <= computed[1]:
        few, most = computed
        span = str(few) if few == most else f"{few} to {most}"
        yield f"busbw over algbw means {span} ranks, and the device list ends at {listed}"
    elif run.ranks and listed is None:
        yield f"{count(run.ranks, 'rank')} by busbw over algbw; the log lists no devices"
    shared = _shared_gpu(table)
    if shared:
        yield f"{shared} share one GPU: not a bandwidth test"
    if table.copies > 1:
        yield each_alone(table.copies)


def _shared_gpu(table: Table) -> str:
    rank_of: dict[tuple[str, int, str], int] = {}
    for rank, device in sorted(table.devices.items()):
        place = (device.host, device.index, device.bus)
        if place in rank_of:
            return f"ranks {rank_of[place]} and {rank}"
        rank_of[place] = rank
    return ""


def _figure_notes(run: BenchmarkRun) -> Iterator[str]:
    rows = sorted(run.table.timed, key=lambda row: row.size_bytes)
    last = rows[-1]
    halves = [
        f"{name} {number(half.busbw_gbps)}"
        for name, half in ((OUT_OF_PLACE, last.out_of_place), (IN_PLACE, last.in_place))
        if half is not None and half.busbw_gbps is not None
    ]
    yield f"busbw at {binary_size(last.size_bytes)}: {', '.join(halves) or 'none'} GB/s"
    peak = run.peak_busbw_gbps or 0.0
    best = max(rows, key=_best)
    if _best(best) > peak * (1 + BETTER):
        yield f"higher before: {number(_best(best))} GB/s at {binary_size(best.size_bytes)}"
    before = [row for row in rows if row.size_bytes < last.size_bytes]
    if before and 0 < _best(before[-1]) * (1 + RISING) < peak:
        yield f"busbw still rises at {binary_size(last.size_bytes)}: larger sizes give more"
    yield from _outliers(rows)


def _outliers(rows: list[TableRow]) -> Iterator[str]:
    """Name large sizes whose halves differ: a spread, which must not be averaged away."""
    outliers = 0
    for row in rows:
        rates = [half.busbw_gbps for half in row.halves if half.busbw_gbps]
        if row.size_bytes < LARGE_BYTES or len(rates) < 2:
            continue
        if min(rates) < max(rates) * (1 - DIFFERENT) and outliers < MOST_OUTLIERS:
            outliers += 1
            low, high = number(min(rates)), number(max(rates))
            which = IN_PLACE if rates[1] < rates[0] else OUT_OF_PLACE
            yield f"spread: {which} only {low} GB/s at {binary_size(row.size_bytes)}, beside {high}"


def _best(row: TableRow) -> float:
    return max((half.busbw_gbps or 0.0 for half in row.halves), default=0.0)


def _form_notes(run: BenchmarkRun) -> Iterator[str]:
    table = run.table
    if table.timed and not table.program:
        named = run.collective or "more than one collective"
        yield f"the log names no program; its columns are those of {named}"
    if any(half.delta is not None for row in table.rows for half in row.halves):
        yield "the column error is the largest deviation of a value, not a count of wrong elements"
    if table.average_failed:
        yield (
            "the average busbw is under NCCL_TESTS_MIN_BW: an average over all sizes, which says "
            "nothing about the largest"
        )
    if table.damaged and table.rows:
        why = table.misfit or "other output runs into them"
        yield f"{count(table.damaged, 'row')} left out: {why}"
    yield from _end_notes(run)


def _end_notes(run: BenchmarkRun) -> Iterator[str]:
    table = run.table
    if not table.timed:
        return
    largest = max(row.size_bytes for row in table.timed)
    reach = binary_size(largest)
    if table.max_bytes and largest > table.max_bytes:
        announced = binary_size(table.max_bytes)
        yield f"announced up to {announced}, and the rows go to {reach}: the rows are believed"
    if table.ended:
        return
    if run.no_proof:
        yield run.no_proof
    else:
        yield "no footer: its counts are not there to compare with"
