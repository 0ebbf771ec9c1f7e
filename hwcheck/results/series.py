"""What the GPUs of a node showed at work, as it came over the wire: checked, and made records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hwcheck.contract.columnar import Cell
from hwcheck.contract.load_run import CollectiveRun, Column, GpuWork, LoadRun, Series


@dataclass(frozen=True)
class VisitSeries:
    """The series of one visit: of its load, and of its collectives; None where there was none."""

    load: LoadRun | None = None
    collectives: CollectiveRun | None = None


def unpack(data: Mapping[str, Any]) -> VisitSeries:
    """Return what ``pack`` wrote; ``problem`` has found nothing wrong with ``data``."""
    load, collectives = data.get("load"), data.get("collectives")
    return VisitSeries(
        _load(load) if load else None,
        CollectiveRun(_series(collectives), collectives["end_s"]) if collectives else None,
    )


def _load(data: Mapping[str, Any]) -> LoadRun:
    rest = {key: value for key, value in data.items() if key not in ("work", "time_s", "columns")}
    work = tuple(GpuWork(**each) for each in data["work"])
    return LoadRun(work=work, series=_series(data), **rest)


def _series(data: Mapping[str, Any]) -> Series:
    columns: dict[str, dict[str, Column]] = {
        subject: {name: tuple(_cells(cells)) for name, cells in columns.items()}
        for subject, columns in data["columns"].items()
    }
    return Series(tuple(data["time_s"]), columns)


def problem(data: Mapping[str, Any]) -> str:
    """Return what is wrong with series that fit their schema, in one line, or an empty text."""
    for during, series in data.items():
        why = _problem(series)
        if why:
            return f"{during}: {why}"
    return ""


def _problem(data: Mapping[str, Any]) -> str:
    """Add lengths up before anything is written out: a run of cells may claim any."""
    times: Sequence[float] = data["time_s"]
    if list(times) != sorted(times):
        return "time_s runs backwards"
    work = data.get("work", ())
    if len({each["subject"] for each in work}) < len(work):
        return "the work of one GPU is there twice"
    for subject, columns in data["columns"].items():
        for name, cells in columns.items():
            rows = sum(map(_count, cells))
            if rows != len(times):
                return f"{name} of {subject} has {rows:g} rows of {len(times)}"
    return ""


def _count(cell: Cell) -> float:
    if not isinstance(cell, list):
        return 1
    # True counts as an integer to Python; none at all makes the sum equal to no number of rows.
    return cell[1] if type(cell[1]) is int and cell[1] > 0 else float("nan")


def _cells(cells: Sequence[Cell]) -> Iterator[float | None]:
    for cell in cells:
        if isinstance(cell, list):
            yield from [cell[0]] * cell[1]
        else:
            yield cell
