"""rows.py: what stands for many samples still shows what a fault would."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from hwcheck.contract.columnar import pack
from hwcheck.contract.load_run import LoadRun
from hwcheck.node.load.rows import ROW_LIMIT, Rows, merged


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
        ("pcie_generation", 5, 1, 1),
        ("thermal_margin_c", 20, 4, 4),
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
    rows, chance = Rows(limit=16, first=2, last=4), random.Random(4)
    heat = [chance.randrange(30, 90) for _ in range(1000)]
    clock = [chance.randrange(300, 2000) for _ in range(1000)]
    for tick in range(1000):
        bits = 1 << 6 if tick == 333 else 4
        told = {"temperature_c": heat[tick], "sm_clock_mhz": clock[tick], "clock_events": bits}
        rows.append(tick, {"gpu0": {**told, "pcie_replays": tick}})
        assert len(rows.series().time_s) <= 16
    series, own = rows.series(), rows.series().columns["gpu0"]
    assert 8 <= len(series.time_s) <= 16
    assert {len(column) for column in own.values()} == {len(series.time_s)}
    assert max(value or 0 for value in own["temperature_c"]) == max(heat)
    assert min(value or 0 for value in own["sm_clock_mhz"]) == min(clock)
    assert sum(value == 4 | 64 for value in own["clock_events"]) == 1
    assert own["pcie_replays"] == series.time_s  # each is of the row's last sample
    assert series.time_s[:2] == (0, 1), "the first stay"
    assert series.time_s[-4:] == (996, 997, 998, 999), "and so do the last"


def test_what_is_judged_are_samples_and_all_bits() -> None:
    rows = Rows(limit=16, first=2, last=4)
    for tick in range(5000):
        told = {"sm_clock_mhz": tick, "clock_events": 8 if tick % 250 == 7 else 4}
        rows.append(tick, {"gpu0": told, "gpu1": {"sm_clock_mhz": 1}})
        counted = rows.series().bits.get("gpu0", ())
        if counted:
            assert sum(sum(each.values()) for each in counted) == tick + 1
    series = rows.series()
    assert sum(each.get(8, 0) for each in series.bits["gpu0"]) == 20
    assert len(series.bits["gpu0"]) == len(series.time_s) <= 16
    clocks = [int(value or 0) for value in series.typical["gpu0"]["sm_clock_mhz"]]
    bits = series.typical["gpu0"]["clock_events"]
    assert clocks == sorted(set(clocks))
    assert [8 if clock % 250 == 7 else 4 for clock in clocks] == list(bits), "told together"
    assert set(series.typical["gpu1"]) == {"sm_clock_mhz"}
    assert "gpu1" not in series.bits


def test_an_hour_keeps_its_first_minute_and_its_last() -> None:
    rows = Rows()
    for tick in range(-200, 5 * 3660):
        if tick == 0:
            rows.hold()
        rows.append(tick / 5, {"gpu0": {"temperature_c": tick}})
    times = rows.series().time_s
    assert len(times) <= ROW_LIMIT
    for begin_s, end_s in ((-40, -35.2), (0, 59.8), (3570, 3659.8)):
        inside = [at_s for at_s in times if begin_s <= at_s <= end_s]
        assert len(inside) == round((end_s - begin_s) * 5) + 1
    middle = [at_s for at_s in times if 61 < at_s < 3400]
    steps = [round(b - a, 1) for a, b in itertools.pairwise(middle)]
    assert max(steps) <= 6.4, "evenly, but for what is not merged yet"
    assert steps == sorted(steps, reverse=True)


def test_before_the_bound_there_is_nothing_beside_the_picture() -> None:
    rows = Rows()
    rows.append(0.0, {"gpu0": {"clock_events": 4}})
    assert (rows.series().typical, rows.series().bits) == ({}, {})


def test_below_the_bound_nothing_is_merged() -> None:
    rows = Rows(limit=8, first=0, last=0)
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
