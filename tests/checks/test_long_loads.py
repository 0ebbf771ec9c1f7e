"""Loads of hours, whose rows stand for many samples, are judged as short ones are."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import pytest

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.load_run import CollectiveRun, LoadRun, Series
from hwcheck.judge.host_case import NodeFacts
from hwcheck.node.load.rows import ROW_LIMIT, Rows
from hwcheck.node.main import run_check
from hwcheck.testing.cases import outcomes
from hwcheck.testing.fake_node import FakeNode

REGISTRY = checks.load()
LOAD_S, COOL_S = 3600, 60
HW_SLOWDOWN = 8
NAME = "NVIDIA H100 80GB HBM3"


def heat(at_s: float) -> int:
    if at_s < 0:
        return 35
    warm = 65 - 30 * math.exp(-min(at_s, LOAD_S) / 20)
    return int(35 + (warm - 35) * math.exp(-max(at_s - LOAD_S, 0) / 20))


@cache
def hour(slowed_every: int, load: bool = True) -> Series:
    """Return an hour at 5 Hz; in one sample of so many hardware slows down, far from the others."""
    rows = Rows()
    for tick in range(-100 if load else 0, 5 * (LOAD_S + COOL_S)):
        if tick == 0 and load:
            rows.hold()
        at_s = tick / 5
        slowed = tick % slowed_every == slowed_every // 2
        told = {"temperature_c": heat(at_s), "clock_events": 4 | HW_SLOWDOWN * slowed}
        clock = {"sm_clock_mhz": 345 if slowed else 1755, "power_w": 90 if slowed else 690}
        link = {"pcie_generation": 1 if slowed else 5, "pcie_width": 4 if slowed else 16}
        rows.append(at_s, {f"gpu{index}": {**told, **clock, **link} for index in range(2)})
    return rows.series()


def judged(check: str, slowed_every: int) -> dict[str, str]:
    ends = {"load_end_s": float(LOAD_S), "cool_end_s": float(LOAD_S + COOL_S)}
    gpu = {
        "name": NAME,
        "board_id": "2330 16c1",
        "compute_processes": [],
        "power_limit_w": 700,
        "pcie_link_generation_max": 5,
        "pcie_link_width_max": 16,
    }
    addresses = [{"pci_address": "0000:18:00.0"}, {"pci_address": "0000:2a:00.0"}]
    told = {"load": {"gpus": [{}, {}], **ends}, "collectives": {"gpus": [{}, {}]}}
    bus = [each["pci_address"] for each in addresses]
    node = FakeNode({"pci_gpus": bus, "gpu": gpu, "gpus": addresses, **told})
    series, before = hour(slowed_every), hour(slowed_every, load=False)
    assert len(series.time_s) <= ROW_LIMIT
    load: LoadRun = replace(node.load(), series=series)
    node.load = lambda: load  # type: ignore[method-assign]
    node.collective_run = lambda: CollectiveRun(before, 900.0)  # type: ignore[method-assign]
    result = run_check(REGISTRY[check], node)
    assert result.state == "done", result.reason
    return outcomes(
        REGISTRY[check], result, NodeFacts({}, {"gpu0": NAME, "gpu1": NAME}), shipped().models
    )


@pytest.mark.parametrize(
    "check",
    ["throttle_under_load", "power_under_load", "clocks_under_load", "pcie_link_under_load"],
)
def test_what_shows_in_a_sample_of_a_thousand_is_no_fault(check: str) -> None:
    said = judged(check, slowed_every=1000)
    assert said
    assert set(said.values()) == {"pass"}


def test_what_shows_in_a_tenth_of_the_samples_is_one() -> None:
    said = judged("throttle_under_load", slowed_every=10)
    assert said["hw_slowdown_percent gpu0"] == "fail"


@pytest.mark.parametrize("check", ["thermal_slope", "cool_down", "thermal_spread"])
def test_the_first_seconds_and_the_last_can_be_judged(check: str) -> None:
    said = judged(check, slowed_every=1000)
    assert said
    assert set(said.values()) == {"pass"}
