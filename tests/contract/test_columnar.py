"""columnar.py: series as JSON; tests/results/test_series.py reads it back."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.contract.columnar import pack
from hwcheck.contract.load_run import CollectiveRun, Column, LoadRun, Series


def cells(quantity: str, *values: float | None) -> list[Any]:
    """Return how one column of one GPU is written."""
    series = Series(tuple(range(len(values))), {"gpu3": {quantity: values}})
    data = pack(LoadRun("cuda", "", (), series, 1.0, 2.0))["load"]
    written: list[Any] = data["columns"]["gpu3"][quantity]
    return written


@pytest.mark.parametrize(
    ("quantity", "values", "written"),
    [
        ("power_w", (70.25, 700.04, None), [70.2, 700, None]),
        ("power_w", (70.0, 71.0), [70, 71]),
        ("pcie_tx_gbps", (0.0123456,), [0.0123]),
        ("temperature_c", (30, 71, 71, 71), [30, [71, 3]]),
        ("temperature_c", (71, 71, 30), [71, 71, 30]),
        ("ecc_corrected", (None, None, None, None), [[None, 4]]),
        ("clock_events", (4, 4, 4, 8, 8, 8), [[4, 3], [8, 3]]),
        ("fan_percent", (), []),
    ],
)
def test_a_column(quantity: str, values: Column, written: list[Any]) -> None:
    assert cells(quantity, *values) == written


def test_times_are_kept_to_a_hundredth() -> None:
    load = LoadRun("cuda", "", (), Series((-0.2004, 0.1996)), 20.00123, 30.5, settled_s=12.3456)
    data = pack(load)["load"]
    assert data["time_s"] == [-0.2, 0.2]
    assert (data["load_end_s"], data["cool_end_s"], data["settled_s"]) == (20.0, 30.5, 12.35)


def test_what_it_is_of_is_said() -> None:
    series = Series((0.0, 0.2), {"gpu3": {"power_w": (250.0, 251.04)}})
    assert pack(CollectiveRun(series, 0.3333)) == {
        "collectives": {
            "end_s": 0.33,
            "time_s": [0.0, 0.2],
            "columns": {"gpu3": {"power_w": [250, 251.0]}},
        }
    }
