"""What files of other tools say, for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from hwcheck.explain.recommendation import Recommendation
from hwcheck.explain.records import BenchmarkRun, Benchmarks, Entry, TopologyMatrix
from hwcheck.report.wrap import Wrapped
from hwcheck.text import binary_size, line, number

STYLES = {
    "done": "green",
    "unchecked": "bold yellow",
    "single-rank": "bold yellow",
    "corrupt": "bold red",
    "hang": "bold red",
    "launch-failed": "bold red",
    "damaged": "bold yellow",
}
KINDS = {
    "nccl-tests": "nccl-tests",
    "topology": "topology (nvidia-smi topo -m)",
    "p2p-status": "P2P status (nvidia-smi topo -p2p)",
    "nccl-info": "log of NCCL",
    "kernel-log": "kernel log",
    "unknown": "not known",
}
MOST_COLUMNS = 20
"""Of a wider matrix only the notes are shown."""


def explained(entries: Sequence[Entry], recommendation: Recommendation | None) -> RenderableType:
    """Return what Rich prints. All text is ``Text``, so markup from a file stays text."""
    parts: list[RenderableType] = []
    for entry in entries:
        parts += [*_entry(entry), Text()]
    if recommendation is not None:
        parts += _recommendation(recommendation)
    return Group(*(parts if recommendation is not None else parts[:-1]))


def _entry(entry: Entry) -> Iterator[RenderableType]:
    yield Wrapped((line(entry.file, 400), "bold"), f"  {KINDS[entry.kind]}")
    if isinstance(entry, Benchmarks):
        for run in entry.runs:
            yield from _run(run)
    elif isinstance(entry, TopologyMatrix) and len(entry.gpus) + len(entry.nics) <= MOST_COLUMNS:
        yield from _table(entry)
    yield from _notes(entry.notes, 2)


def _run(run: BenchmarkRun) -> Iterator[RenderableType]:
    ranks = f" on {run.ranks} ranks" if run.ranks else ""
    yield Wrapped(
        f"{line(run.collective or 'a collective not named', 60)}{ranks}: ",
        (run.state, STYLES[run.state]),
        _figure(run),
        indent=2,
    )
    yield from _notes(run.notes, 4)


def _figure(run: BenchmarkRun) -> str:
    wrong = f", {run.wrong} wrong elements" if run.wrong else ""
    if run.peak_busbw_gbps is None or run.peak_bytes is None:
        return wrong
    figure = f"{number(run.peak_busbw_gbps)} GB/s {run.peak_place}"
    return f", busbw {figure} at {binary_size(run.peak_bytes)}{wrong}"


def _table(matrix: TopologyMatrix) -> Iterator[Text]:
    """Yield the lines of the matrix; none is broken or cut, however narrow the terminal."""
    columns = (*matrix.gpus, *matrix.nics)
    rows = [["", *columns]]
    for device, cells in matrix.cells.items():
        rows.append(
            [device, *("X" if device == name else cells.get(name, "?") for name in columns)]
        )
    shown = [[line(cell, 20) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    for index, row in enumerate(shown):
        text = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        style = "" if index else "bold"
        yield Text(f"  {text.rstrip()}", style=style, no_wrap=True, overflow="ignore")


def _notes(notes: Sequence[str], indent: int) -> Iterator[Wrapped]:
    for note in notes:
        yield Wrapped(f"- {line(note, 1000)}", indent=indent)


def _recommendation(recommendation: Recommendation) -> Iterator[RenderableType]:
    settings = [f"{name}={value}" for name, value in recommendation.env.items()]
    what = ", ".join(settings) if settings else "leave everything unset"
    yield Wrapped(("NCCL: ", "bold"), line(what, 400))
    yield from _notes(recommendation.reasons, 2)
