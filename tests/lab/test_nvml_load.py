"""A GPU that works gets hot: the library against the same physics worked out here."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from hwcheck.node.nvml.gpu import CLOCK_EVENT_BITS
from tests.lab import nvml
from tests.lab.nvml_answers import Stand

pytestmark = pytest.mark.urgent

AMBIENT_C, RESISTANCE, TAU_S, IDLE_C = 25.0, 0.08, 20.0, 30.0
GPU: dict[str, Any] = {
    "power_w": 70,
    "power_limit_w": 700,
    "temperature_c": IDLE_C,
    "memory_temperature_c": 40,
    "utilization_percent": 0,
    "memory_utilization_percent": 0,
    "performance_state": 8,
    "clock_event_reasons": ["idle"],
    "clocks": {"sm_mhz": 345, "memory_mhz": 400, "max_sm_mhz": 1980, "max_memory_mhz": 2619},
    "under_load": {
        "power_w": 600,
        "ambient_c": AMBIENT_C,
        "resistance_c_per_w": RESISTANCE,
        "time_constant_s": TAU_S,
        "sm_mhz": 1800,
        "utilization_percent": 99,
        "performance_state": 0,
    },
}
QUESTIONS = {
    "power_w": "nvmlDeviceGetPowerUsage(gpu) / 1000",
    "temperature_c": "nvmlDeviceGetTemperature(gpu, 0)",
    "memory_c": "nvmlDeviceGetFieldValues(gpu, [NVML_FI_DEV_MEMORY_TEMP])[0].value.ullVal",
    "sm_mhz": "nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_SM)",
    "memory_mhz": "nvmlDeviceGetClockInfo(gpu, NVML_CLOCK_MEM)",
    "use_percent": "nvmlDeviceGetUtilizationRates(gpu).gpu",
    "state": "nvmlDeviceGetPerformanceState(gpu)",
    "reasons": "nvmlDeviceGetCurrentClocksEventReasons(gpu)",
}


def read(stand: Stand, gpu: dict[str, Any], since_s: float | None = None) -> dict[str, Any]:
    stand.says({"gpus": [gpu]})
    work = stand.scenario.with_name("work")
    if since_s is not None:
        nvml.begin_load(work, time.time() - since_s)
    said = stand.answers(list(QUESTIONS.values()), HWLAB_NVML_LOAD=str(work))
    found = {name: said[question] for name, question in QUESTIONS.items()}
    bits = found["reasons"]
    found["reasons"] = {name for bit, name in enumerate(CLOCK_EVENT_BITS) if bits >> bit & 1}
    return found


def limited(**limits: float) -> dict[str, Any]:
    return {**GPU, **limits}


def heated(power_w: float, seconds: float, start_c: float = IDLE_C) -> float:
    """Return the temperature by steps of 1 ms: the differential equation, not its solution."""
    temperature_c, step_s = start_c, 0.001
    for _ in range(round(seconds / step_s)):
        target_c = AMBIENT_C + RESISTANCE * power_w
        temperature_c += (target_c - temperature_c) * step_s / TAU_S
    return temperature_c


def test_an_idle_gpu_says_what_the_scenario_says(stand: Stand) -> None:
    assert read(stand, GPU) == {
        "power_w": 70, "temperature_c": 30, "memory_c": 40, "sm_mhz": 345, "memory_mhz": 400,
        "use_percent": 0, "state": 8, "reasons": {"idle"},
    }  # fmt: skip


@pytest.mark.parametrize("seconds", [4.0, 20.0, 60.0])
def test_a_gpu_at_work_gets_hot(stand: Stand, seconds: float) -> None:
    found = read(stand, GPU, since_s=seconds)
    assert found["temperature_c"] == pytest.approx(heated(600, seconds), abs=1.5)
    assert found["memory_c"] == pytest.approx(10 + heated(600, seconds), abs=1.5)
    assert (found["power_w"], found["sm_mhz"], found["memory_mhz"]) == (600, 1800, 2619)
    assert (found["use_percent"], found["state"], found["reasons"]) == (99, 0, set())


def test_the_power_of_an_instant_scatters_at_work_and_its_average_does_not(stand: Stand) -> None:
    field = "nvmlDeviceGetFieldValues(gpu, [NVML_FI_DEV_POWER_{}])[0].value.uiVal / 1000"
    instant, average = (field.format(name) for name in ("INSTANT", "AVERAGE"))
    stand.says({"gpus": [{**GPU, "load": True}]})
    with stand.asker() as asker:
        readings_w: set[float] = set()
        while len(readings_w) < 50:
            readings_w.add(asker.ask(instant))
            assert asker.ask(average) == 600
    ordered_w = sorted(readings_w)
    assert 0.04 < (ordered_w[44] - ordered_w[5]) / 600 < 0.1
    assert ordered_w[25] == pytest.approx(600, rel=0.02)
    stand.says({"gpus": [{**GPU, "load": False}]})
    assert stand.answers([instant])[instant] == 70


def test_the_thermal_margin_shrinks_at_work(stand: Stand) -> None:
    margin, heat = "nvmlDeviceGetMarginTemperature(gpu)", "nvmlDeviceGetTemperature(gpu, 0)"
    for load in (True, False):
        read(stand, {**GPU, "thermal_margin_c": 50, "load": load})
        found = stand.answers([margin, heat])
        assert found[margin] + found[heat] == 50 + IDLE_C


def test_work_without_end(stand: Stand) -> None:
    found = read(stand, {**GPU, "load": True})
    assert found["temperature_c"] == round(AMBIENT_C + RESISTANCE * 600)
    assert read(stand, {**GPU, "load": False})["temperature_c"] == 30


def test_at_the_power_limit(stand: Stand) -> None:
    found = read(stand, limited(power_limit_w=300, load=True))
    assert found["reasons"] == {"sw_power_cap"}
    assert (found["power_w"], found["temperature_c"]) == (300, AMBIENT_C + RESISTANCE * 300)
    assert found["sm_mhz"] == pytest.approx(1800 * 0.5 ** (1 / 3), abs=1)


def test_software_holds_the_maximum_operating_temperature(stand: Stand) -> None:
    limits = {"temperature_max_operating_c": 65, "temperature_slowdown_c": 70}
    found = read(stand, limited(**limits, load=True))
    assert found["reasons"] == {"sw_thermal_slowdown"}
    assert found["temperature_c"] == 65
    assert found["power_w"] == pytest.approx((65 - AMBIENT_C) / RESISTANCE)
    assert 345 < found["sm_mhz"] < 1800


def test_hardware_slows_down_where_software_cannot_hold_it(stand: Stand) -> None:
    limits = {"temperature_max_operating_c": 42, "temperature_slowdown_c": 46}
    found = read(stand, limited(**limits, load=True))
    assert found["reasons"] == {
        "sw_thermal_slowdown", "hw_slowdown", "hw_thermal_slowdown"
    }  # fmt: skip
    assert found["temperature_c"] == 46
    assert found["power_w"] == pytest.approx((46 - AMBIENT_C) / RESISTANCE)


def test_no_slowdown_before_the_threshold_is_reached(stand: Stand) -> None:
    gpu = limited(temperature_slowdown_c=60)
    crossing_s = TAU_S * math.log((73 - IDLE_C) / (73 - 60))
    assert heated(600, crossing_s) == pytest.approx(60, abs=0.05)
    before = read(stand, gpu, since_s=crossing_s - 3)
    after = read(stand, gpu, since_s=crossing_s + 3)
    assert before["reasons"] == set()
    assert after["reasons"] == {"hw_slowdown", "hw_thermal_slowdown"}
    assert after["temperature_c"] == 60
    assert after["sm_mhz"] < before["sm_mhz"]


def test_it_cools_down_after_the_work(stand: Stand) -> None:
    now = time.time()
    gpu = {**GPU, "load": {"since_s": now - 50, "until_s": now - 10}}
    hot = heated(600, 40)
    expected = IDLE_C + (hot - IDLE_C) * math.exp(-10 / TAU_S)
    found = read(stand, gpu)
    assert found["temperature_c"] == pytest.approx(expected, abs=1.5)
    assert (found["power_w"], found["reasons"], found["sm_mhz"]) == (70, {"idle"}, 345)


def test_the_end_of_the_work_is_seen_by_who_runs_already(stand: Stand) -> None:
    work = stand.scenario.with_name("work")
    stand.says({"gpus": [GPU]})
    power = "nvmlDeviceGetPowerUsage(gpu)"
    with stand.asker(HWLAB_NVML_LOAD=str(work)) as asker:
        assert asker.ask(power) == 70_000
        nvml.begin_load(work, time.time() - 1)
        assert asker.ask(power) == 600_000
        nvml.end_load(work)
        assert asker.ask(power) == 70_000
        assert asker.ask("nvmlDeviceGetTemperature(gpu, 0)") > IDLE_C
        work.unlink()
        assert asker.ask("nvmlDeviceGetTemperature(gpu, 0)") == IDLE_C


def test_an_empty_file_is_work_since_it_was_made(stand: Stand) -> None:
    stand.scenario.with_name("work").touch()
    assert read(stand, GPU)["power_w"] == 600


def test_one_gpu_may_work_while_another_does_not(stand: Stand) -> None:
    work = stand.scenario.with_name("work")
    stand.says({"gpu": GPU, "gpus": [{}, {}]})
    nvml.begin_load(work.with_name("work.1"), time.time() - 1)
    power = [f"nvmlDeviceGetPowerUsage(gpus[{index}])" for index in (0, 1)]
    assert [*stand.answers(power, HWLAB_NVML_LOAD=str(work)).values()][1:] == [70_000, 600_000]
    nvml.begin_load(work)
    assert [*stand.answers(power, HWLAB_NVML_LOAD=str(work)).values()][1:] == [600_000, 600_000]


def test_errors_come_with_the_work_and_stay(stand: Stand) -> None:
    errors = {"after_s": 5, "pcie_replays": 30, "ecc_errors": {"volatile_corrected": 40}}
    own = {"ecc_errors": {"volatile_corrected": 2, "volatile_uncorrected": 0}, "pcie_replays": 7}
    gpu = {**GPU, **own, "under_load": {**GPU["under_load"], "new_errors": errors}}
    now, questions = time.time(), [
        "nvmlDeviceGetTotalEccErrors(gpu, NVML_MEMORY_ERROR_TYPE_CORRECTED, NVML_VOLATILE_ECC)",
        "nvmlDeviceGetTotalEccErrors(gpu, NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC)",
        "nvmlDeviceGetPcieReplayCounter(gpu)",
    ]  # fmt: skip
    for load, counts in (
        (False, [2, 0, 7]),
        ({"since_s": now - 2}, [2, 0, 7]),
        ({"since_s": now - 9}, [42, 0, 37]),
        ({"since_s": now - 9, "until_s": now - 1}, [42, 0, 37]),
        ({"since_s": now - 9, "until_s": now - 5}, [2, 0, 7]),
    ):
        stand.says({"gpus": [{**gpu, "load": load}]})
        assert [*stand.answers(questions).values()][1:] == counts, load


def test_what_else_is_otherwise_at_work(stand: Stand) -> None:
    more = {"clock_event_reasons": ["hw_power_brake"], "pcie_link_generation": 5}
    gpu = {**GPU, "pcie_link_generation": 1, "under_load": {**GPU["under_load"], **more}}
    generation = "nvmlDeviceGetCurrPcieLinkGeneration(gpu)"
    for load, reasons, link in ((True, {"hw_power_brake"}, 5), (False, {"idle"}, 1)):
        assert read(stand, {**gpu, "load": load})["reasons"] == reasons
        assert stand.answers([generation])[generation] == link


def test_a_gpu_may_cool_down_more_slowly_than_it_warmed_up(stand: Stand) -> None:
    now = time.time()
    slow = {**GPU["under_load"], "cooling_time_constant_s": 400}
    gpu = {**GPU, "under_load": slow, "load": {"since_s": now - 50, "until_s": now - 10}}
    expected = IDLE_C + (heated(600, 40) - IDLE_C) * math.exp(-10 / 400)
    assert read(stand, gpu)["temperature_c"] == pytest.approx(expected, abs=1.5)


def test_without_a_model_work_changes_nothing(stand: Stand) -> None:
    cold = {key: value for key, value in GPU.items() if key != "under_load"}
    assert read(stand, {**cold, "load": True})["power_w"] == 70
