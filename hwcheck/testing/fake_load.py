"""A LoadRun, or a CollectiveRun, made from the JSON of a case.

``load`` has the fields of the record. ``time_s`` is ``{"from": -2, "to": 30, "every": 0.5}``. Each
of ``gpus`` overrides, key by key, ``work`` and ``series`` in ``each``; one that is ``null`` was not
reached. A column is one value for all times, ``{"line": [[time, value], ...]}``, between whose
points the value moves evenly, ``{"steps": [[time, value], ...]}``, where it holds until the next,
or the list of its values; ``null`` takes the column away. ``{"error": text}`` could not be run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.load_run import CollectiveRun, Column, GpuWork, LoadRun, Series

WORK = {"dtype": "bf16", "size": 8192, "products": 1000, "digest": "5f1c"}
KEYS = {"backend", "library", "load_end_s", "cool_end_s", "settled_s", "stopped"}


def fake_load(says: Mapping[str, Any]) -> LoadRun:
    """Return the record. Raises CouldNotMeasure where the case says that it cannot be run."""
    if "error" in says:
        raise CouldNotMeasure(says["error"])
    unknown = set(says) - KEYS - {"time_s", "each", "gpus"}
    assert not unknown, f"unknown in a case's load: {sorted(unknown)}"
    gpus = _gpus(says)
    works = (GpuWork(subject, **{**WORK, **of_gpu["work"]}) for subject, of_gpu in gpus.items())
    series = _series(says, {"from": -2, "to": 30, "every": 0.5}, gpus)
    rest: dict[str, Any] = {
        "backend": "cuda",
        "library": "torch 2.8.0",
        "load_end_s": 20.0,
        "cool_end_s": 30.0,
    }
    rest |= {key: says[key] for key in KEYS & set(says)}
    return LoadRun(work=tuple(works), series=series, **rest)


def fake_collectives(says: Mapping[str, Any]) -> CollectiveRun:
    """Return the record of ``end_s`` and, as in a load, ``time_s``, ``each`` and ``gpus``."""
    times = {"from": 0, "to": 12, "every": 0.5}
    return CollectiveRun(_series(says, times, _gpus(says)), says.get("end_s", 12.0))


def _gpus(says: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"gpu{index}": {
            key: {**says.get("each", {}).get(key, {}), **gpu.get(key, {})}
            for key in ("work", "series")
        }
        for index, gpu in enumerate(says.get("gpus", [{}]))
        if gpu is not None
    }


def _series(says: Mapping[str, Any], usual: Mapping[str, float], gpus: Mapping[str, Any]) -> Series:
    times = _times(says.get("time_s", usual))
    return Series(
        times,
        {
            subject: {
                name: _column(column, times)
                for name, column in of_gpu["series"].items()
                if column is not None
            }
            for subject, of_gpu in gpus.items()
        },
    )


def _times(says: Mapping[str, float]) -> tuple[float, ...]:
    count = round((says["to"] - says["from"]) / says["every"]) + 1
    return tuple(says["from"] + says["every"] * index for index in range(count))


def _column(says: Any, times: Sequence[float]) -> Column:
    if isinstance(says, list):
        assert len(says) == len(times), "a column has a value for each time"
        return tuple(says)
    if isinstance(says, dict):
        (kind, points), *none = says.items()
        assert not none
        return tuple(_at(kind, points, time_s) for time_s in times)
    return (says,) * len(times)


def _at(kind: str, points: Sequence[Sequence[float]], time_s: float) -> float:
    before = [point for point in points if point[0] <= time_s] or [points[0]]
    after = [point for point in points if point[0] > time_s] or [points[-1]]
    (begin, low), (end, high) = before[-1], after[0]
    if kind == "steps" or end <= begin or time_s <= begin:
        return low
    assert kind == "line", f"no such kind of column: {kind}"
    return low + (high - low) * (time_s - begin) / (end - begin)
