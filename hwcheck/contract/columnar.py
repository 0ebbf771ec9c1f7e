"""Series as JSON that stays small: columns, equal values in a row written once."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from hwcheck.contract.load_run import CollectiveRun, LoadRun, Series

SHORTEST_RUN = 3
DECIMALS = {"pcie_tx_gbps": 4, "pcie_rx_gbps": 4}
"""Digits that are kept after the point; of all else one."""

Cell = Union[None, float, List[Any]]
"""A value, or ``[value, count]`` for so many in a row."""


def pack(run: Union[LoadRun, CollectiveRun]) -> Dict[str, Any]:
    """Return one of them as JSON types, by what it is; ``results.series`` reads them back."""
    if isinstance(run, CollectiveRun):
        return {"collectives": {"end_s": round(run.end_s, 2), **_series(run.series)}}
    load = {
        "backend": run.backend,
        "library": run.library,
        "work": [vars(work) for work in run.work],
        "load_end_s": round(run.load_end_s, 2),
        "cool_end_s": round(run.cool_end_s, 2),
        "settled_s": None if run.settled_s is None else round(run.settled_s, 2),
        "stopped": run.stopped,
    }
    return {"load": {**load, **_series(run.series)}}


def _series(series: Series) -> Dict[str, Any]:
    columns = {
        subject: {
            name: list(_runs([_short(value, DECIMALS.get(name, 1)) for value in column]))
            for name, column in quantities.items()
        }
        for subject, quantities in series.columns.items()
    }
    return {"time_s": [round(time_s, 2) for time_s in series.time_s], "columns": columns}


def _short(value: Optional[float], decimals: int) -> Optional[float]:
    if value is None:
        return None
    return int(value) if value == int(value) else round(value, decimals)


def _runs(values: Sequence[Optional[float]]) -> Iterator[Cell]:
    row = 0
    while row < len(values):
        value, count = _run(values, row)
        if count >= SHORTEST_RUN:
            yield [value, count]
        else:
            yield from [value] * count
        row += count


def _run(values: Sequence[Optional[float]], first: int) -> Tuple[Optional[float], int]:
    end = first + 1
    while end < len(values) and values[end] == values[first]:
        end += 1
    return values[first], end - first
