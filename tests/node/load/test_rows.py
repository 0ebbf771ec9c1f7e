"""rows.py: what stands for many samples still shows what a fault would."""

from __future__ import annotations

import json
import random

import pytest

from hwcheck.node.load.columnar import pack
from hwcheck.node.load.records import LoadRun
from hwcheck.node.load.rows import Rows, merged


def test_what_was_not_told_is_none() -> None:
    rows = Rows()
    rows.append(10.0, {"gpu0": {"power_w": 70.0}})
    rows.append(10.2, {"gpu1": {"power_w": 71.0}})
    rows.append(10.4, {"gpu0": {"power_w": 72.0, "fan_percent": 30}})
    series = rows.series(zero_s=10.2)
    assert series.time_s == pytest.approx((-0.2, 0.0, 0.2))
    assert series.columns == {
        "gpu0": {"power_w": (70.0, None, 72.0), "fan_percent": (None, None, 30)},
        "gpu1": {"power_w": (None, 71.0, None)},
    }


def test_the_last_seconds_of_some_quantities() -> None:
    rows = Rows()
    for second in range(10):
        rows.append(second, {"gpu0": {"power_w": second, "fan_percent": 1}})
    last = rows.last(2.0, ["power_w"], zero_s=1.0)
    assert (last.time_s, last.columns) == ((6, 7, 8), {"gpu0": {"power_w": (7, 8, 9)}})


@pytest.mark.parametrize(
    ("quantity", "first", "second", "one"),
    [
        ("temperature_c", 71, 70, 71),
        ("power_w", 500.0, 690.0, 690.0),
        ("sm_clock_mhz", 1980, 345, 345),
        ("pcie_width", 16, 8, 8),
        ("clock_events", 4, 8, 12),
        ("ecc_uncorrected", 0, 1, 1),
        ("pcie_replays", 5, 2, 2),  # the GPU was reset
        ("power_w", None, 1.0, 1.0),
        ("ecc_corrected", 3, None, 3),
        ("sm_clock_mhz", None, None, None),
    ],
)
def test_one_of_two(
    quantity: str, first: float | None, second: float | None, one: float | None
) -> None:
    assert merged(quantity, first, second) == one


def test_the_number_of_rows_is_bounded_and_the_extremes_stay() -> None:
    rows, chance = Rows(limit=8), random.Random(4)
    heat = [chance.randrange(30, 90) for _ in range(1000)]
    clock = [chance.randrange(300, 2000) for _ in range(1000)]
    for tick in range(1000):
        bits = 1 << 6 if tick == 333 else 4
        told = {"temperature_c": heat[tick], "sm_clock_mhz": clock[tick], "clock_events": bits}
        rows.append(tick, {"gpu0": {**told, "pcie_replays": tick}})
        assert len(rows.series().time_s) <= 8
    series, own = rows.series(), rows.series().columns["gpu0"]
    assert 4 <= len(series.time_s) <= 8
    assert {len(column) for column in own.values()} == {len(series.time_s)}
    assert max(value or 0 for value in own["temperature_c"]) == max(heat)
    assert min(value or 0 for value in own["sm_clock_mhz"]) == min(clock)
    assert sum(value == 4 | 64 for value in own["clock_events"]) == 1
    assert own["pcie_replays"] == series.time_s  # each is of the row's last sample
    assert series.time_s[-1] == 999
    steps = {b - a for a, b in zip(series.time_s, series.time_s[1:-1], strict=False)}
    assert len(steps) == 1, "rows are evenly spaced, but for the one that is not full"


def test_below_the_bound_nothing_is_merged() -> None:
    rows = Rows(limit=8)
    for tick in range(8):
        rows.append(tick, {"gpu0": {"power_w": tick}})
    assert rows.series().columns["gpu0"]["power_w"] == tuple(range(8))


def test_a_day_of_eight_gpus_stays_small() -> None:
    rows, chance = Rows(), random.Random(1)
    for tick in range(40_000):
        values = {
            "power_w": 680 + chance.random() * 20,
            "temperature_c": chance.choice((70, 71)),
            "sm_clock_mhz": chance.choice((1950, 1965, 1980)),
            "clock_events": 4,
        }
        if tick % 5 == 0:
            values |= {"ecc_uncorrected": 0, "pcie_generation": 5, "pcie_width": 16}
        rows.append(tick / 5, {"gpu0": values})
    run = LoadRun("cuda", "", (), rows.series(), 8000.0, 8000.0)
    assert 8 * len(json.dumps(pack(run)["load"]["columns"])) < 600_000
