"""The load of a node as it came over the wire: checked, and made a record again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hwcheck.node.load.columnar import Cell
from hwcheck.node.load.records import Column, GpuWork, LoadRun, Series


def unpack(data: Mapping[str, Any]) -> LoadRun:
    """Return the load that ``pack`` wrote; ``problem`` has found nothing wrong with ``data``."""
    columns: dict[str, dict[str, Column]] = {
        subject: {name: tuple(_cells(cells)) for name, cells in own.items()}
        for subject, own in data["columns"].items()
    }
    rest = {key: value for key, value in data.items() if key not in ("work", "time_s", "columns")}
    work = tuple(GpuWork(**each) for each in data["work"])
    return LoadRun(work=work, series=Series(tuple(data["time_s"]), columns), **rest)


def problem(data: Mapping[str, Any]) -> str:
    """Return what is wrong with a load that fits its schema, in one line, or an empty text.

    A run of cells may claim any length, so lengths are added up before anything is written out.
    """
    times: Sequence[float] = data["time_s"]
    if list(times) != sorted(times):
        return "time_s runs backwards"
    if len({work["subject"] for work in data["work"]}) < len(data["work"]):
        return "the work of one GPU is there twice"
    for subject, own in data["columns"].items():
        for name, cells in own.items():
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
