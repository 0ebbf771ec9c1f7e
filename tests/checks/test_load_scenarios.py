"""All checks of the load on one simulated load: each fault is found, a healthy node is silent.

The noise is that of real nodes as far as it matters: chips differ by 3 %, a tray has warm and cool
places, NVML counts whole degrees.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.wire import CheckResult
from hwcheck.judge.host_case import NodeFacts
from hwcheck.judge.limits import judge_answer
from hwcheck.node.main import run_check
from hwcheck.testing.cases import gpu_models
from hwcheck.testing.fake_node import FakeNode

GPUS = 8
NAME = "NVIDIA H100 80GB HBM3"
BOARD = {
    "name": NAME,
    "board_id": "2330 16c1",
    "compute_processes": [],
    "power_limit_w": 700,
    "power_limit_default_w": 700,
    "temperature_slowdown_c": 89,
    "memory_temperature_max_c": 95,
    "pcie_link_generation_max": 5,
    "pcie_link_width_max": 16,
    "application_clocks": {
        "graphics_mhz": 1980,
        "memory_mhz": 2619,
        "graphics_default_mhz": 1980,
        "memory_default_mhz": 2619,
    },
}
OF_LOAD = {name: check for name, check in checks.load().items() if check.load and check.per_gpu}
TIMES = [round(-3 + 0.2 * step, 1) for step in range(166)]

Gpu = dict[str, dict[str, Any]]
Spoil = Callable[[list[Gpu]], "dict[str, Any] | None"]


def healthy(place: int, seed: int) -> Gpu:
    """Return the work and the series of one healthy GPU of a tray."""
    noise = random.Random(f"{seed} {place}")
    chip, warm = noise.uniform(0.985, 1.015), 62 + 4 * (place % 2) + noise.uniform(-1.5, 1.5)
    at_work = [0 <= time_s <= 20 for time_s in TIMES]

    def wave(idle: float, busy: float, width: float) -> list[float]:
        return [round((busy if on else idle) + noise.uniform(-width, width), 1) for on in at_work]

    heat = [_heat(time_s, warm) for time_s in TIMES]
    return {
        "work": {
            "tflops": 690 * chip,
            "tflops_low": 675 * chip,
            "copy_gbps": 2800 * noise.uniform(0.995, 1.005),
            "to_device_gbps": 55.0 - 4 * (place > 3),
            "from_device_gbps": 54.0 - 5 * (place > 3),
        },
        "series": {
            "power_w": wave(95, 695, 6),
            "temperature_c": [float(round(c)) for c in heat],
            "memory_temperature_c": [float(round(c + 9)) for c in heat],
            "sm_clock_mhz": wave(345, 1500 * chip, 30),
            "memory_clock_mhz": 2619,
            "clock_events": [4 if on else 1 for on in at_work],
            "pcie_generation": 5,
            "pcie_width": 16,
            "ecc_uncorrected": 0,
            "ecc_corrected": 3,
            "pcie_replays": 40,
        },
    }


def _heat(time_s: float, warm: float) -> float:
    if time_s <= 0:
        return 33.0
    if time_s <= 20:
        return 33 + (warm - 33) * (1 - math.exp(-time_s / 7))
    return 36 + (_heat(20, warm) - 36) * math.exp(-(time_s - 20) / 6)


def _from(begin_s: float, series: list[float], value: float) -> list[float]:
    """Return a series that has another value from a time on to the end of the load."""
    pairs = zip(TIMES, series, strict=True)
    return [value if begin_s <= time_s <= 20 else old for time_s, old in pairs]


def answers(spoil: Spoil, seed: int = 0) -> tuple[dict[str, Any], list[CheckResult]]:
    """Return a node under a load that something befalls, and what every check of it answers."""
    gpus = [healthy(place, seed) for place in range(GPUS)]
    more = spoil(gpus) or {}
    time_s = {"from": TIMES[0], "to": TIMES[-1], "every": 0.2}
    says = {
        "pci_gpus": [f"0000:{0x10 + place:02x}:00.0" for place in range(GPUS)],
        "gpu": BOARD,
        "gpus": [{"pci_address": f"0000:{0x10 + place:02x}:00.0"} for place in range(GPUS)],
        "load": {"time_s": time_s, "gpus": gpus, **more},
    }
    node = FakeNode(says)
    return says, [run_check(check, node) for check in OF_LOAD.values()]


def found(spoil: Spoil, seed: int = 0) -> set[str]:
    """Return which checks complain of which GPU: ``cool_down gpu3``."""
    says, results = answers(spoil, seed)
    known = NodeFacts({}, gpu_models(says))
    return {
        f"{result.check} {finding.subject}"
        for result in results
        for finding in judge_answer("n", OF_LOAD[result.check], result, known, shipped().models)
        if finding.outcome != "pass"
    }


def nothing(gpus: list[Gpu]) -> None:
    """Let the load go on as it should."""


@pytest.mark.parametrize("seed", range(20))
def test_a_healthy_node_is_silent(seed: int) -> None:
    assert found(nothing, seed) == set()


def throttling(gpus: list[Gpu]) -> dict[str, Any]:
    own = gpus[2]["series"]
    own["temperature_c"] = _from(8, own["temperature_c"], 86.0)
    own["clock_events"] = _from(8, own["clock_events"], 32)
    own["sm_clock_mhz"] = _from(8, own["sm_clock_mhz"], 1150.0)
    return {}


def power_brake(gpus: list[Gpu]) -> dict[str, Any]:
    own = gpus[5]["series"]
    own["clock_events"] = _from(0, own["clock_events"], 136)
    own["power_w"] = _from(0, own["power_w"], 330.0)
    own["sm_clock_mhz"] = _from(0, own["sm_clock_mhz"], 800.0)
    gpus[5]["work"]["tflops"] = 370.0
    return {}


def slow(gpus: list[Gpu]) -> dict[str, Any]:
    gpus[1]["work"]["tflops"] *= 0.8
    return {}


def hot_slot(gpus: list[Gpu]) -> dict[str, Any]:
    # Its air comes in warm: the rise is that of the others.
    gpus[7]["series"]["temperature_c"] = [float(round(_heat(t, 64) + 15)) for t in TIMES]
    return {}


def bad_contact(gpus: list[Gpu]) -> dict[str, Any]:
    heat = [33 + 38 * (1 - math.exp(-max(t, 0) / 1.5)) if t <= 20 else _heat(t, 70) for t in TIMES]
    gpus[6]["series"]["temperature_c"] = [float(round(c)) for c in heat]
    return {}


def corrupting(gpus: list[Gpu]) -> dict[str, Any]:
    gpus[4]["work"]["wrong_products"] = 1
    return {}


def uncorrectable(gpus: list[Gpu]) -> dict[str, Any]:
    counts = [float(time_s >= 12) for time_s in TIMES]
    gpus[3]["series"]["ecc_uncorrected"] = counts
    return {"stopped": "gpu3 has uncorrectable memory errors (1 more than before the load)"}


@pytest.mark.parametrize(
    ("spoil", "complaints"),
    [
        (
            throttling,
            {
                *("throttle_under_load gpu2", "temperature_under_load gpu2"),
                *("thermal_spread gpu2", "clocks_under_load gpu2"),
            },
        ),
        (
            power_brake,
            {
                *("power_under_load gpu5", "throttle_under_load gpu5"),
                *("clocks_under_load gpu5", "sustained_tflops gpu5"),
            },
        ),
        (slow, {"sustained_tflops gpu1"}),
        (hot_slot, {"thermal_spread gpu7"}),
        (bad_contact, {"thermal_slope gpu6"}),
        (corrupting, {"compute_errors gpu4"}),
        (uncorrectable, {"errors_under_load gpu3", "temperature_under_load node"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
@pytest.mark.parametrize("seed", range(3))
def test_a_fault_is_found_and_nothing_else(
    spoil: Callable[[list[Gpu]], dict[str, Any]], complaints: set[str], seed: int
) -> None:
    assert found(spoil, seed) == complaints
