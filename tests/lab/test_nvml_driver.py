"""What the library has by driver generation, and how long a driver takes."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.lab.nvml_answers import Stand

GPU: dict[str, Any] = {
    "fan_speeds_percent": [30],
    "clock_event_reasons": ["idle"],
    "numa_node": 0,
    "temperature_c": 40,
    "thermal_margin_c": 43,
    "temperature_limits": {"slowdown_c": -2, "shutdown_c": -7, "max_operating_c": 0},
    "recovery_action": 0,
    "power_w": 70,
    "fabric": {"state": "completed"},
    "nvlinks": [{"active": True, "count": 18}],
}
FABRIC = "filled(c_nvmlGpuFabricInfo_v%d_t(), nvmlDeviceGetGpuFabricInfoV, gpu).state"
OLDEST_FABRIC = "filled(c_nvmlGpuFabricInfo_t(), nvmlDeviceGetGpuFabricInfo, gpu).state"
REASONS = "nvmlDeviceGetCurrentClocksEventReasons(gpu)"
OLD_REASONS = "nvmlDeviceGetCurrentClocksThrottleReasons(gpu)"
FIELD = "nvmlDeviceGetFieldValues(gpu, [%d])[0].nvmlReturn"
LIMIT = "nvmlDeviceGetFieldValues(gpu, [NVML_FI_DEV_TEMPERATURE_%s_TLIMIT])[0].value.siVal"
LINK = "nvmlDeviceGetNvLinkState(gpu, %d)"
MISSING, MISMATCH = "error: Function Not Found", "error: Argument version mismatch"
NOT_SUPPORTED = 3


@pytest.mark.parametrize(
    ("version", "answers"),
    [
        ("470.256.02", {REASONS: MISSING, OLD_REASONS: 1, OLDEST_FABRIC: MISSING,
                        "nvmlDeviceGetNumFans(gpu)": MISSING, FIELD % 186: NOT_SUPPORTED,
                        LINK % 11: 1, LINK % 12: "error: Invalid Argument"}),
        ("525.147.05", {REASONS: MISSING, OLDEST_FABRIC: 3, FABRIC % 2: MISSING, LINK % 17: 1,
                        "nvmlDeviceGetNumFans(gpu)": 1}),
        ("535.183.01", {REASONS: 1, FABRIC % 2: MISSING, FIELD % 186: 0, FIELD % 194: 0,
                        "nvmlDeviceGetNumaNodeId(gpu)": MISSING}),
        ("550.90.07", {FABRIC % 2: 3, FABRIC % 3: MISMATCH, FIELD % 230: NOT_SUPPORTED,
                       "nvmlDeviceGetMarginTemperature(gpu)": MISSING}),
        ("570.124.06", {FABRIC % 2: 3, FABRIC % 3: MISMATCH, FIELD % 230: 0,
                        "nvmlDeviceGetMarginTemperature(gpu)": 43}),
        ("580.82.07", {FABRIC % 3: 3, LIMIT % "SLOWDOWN": -2, LIMIT % "SHUTDOWN": -7,
                       LIMIT % "GPU_MAX": 0}),
    ],
)  # fmt: skip
def test_what_a_driver_generation_has(stand: Stand, version: str, answers: dict[str, Any]) -> None:
    stand.says({"driver_version": version, "gpus": [GPU]})
    said = stand.answers(list(answers))
    assert {question: said[question] for question in answers} == answers


@pytest.mark.parametrize(("version_first", "answer"), [(True, MISMATCH), (False, "")])
def test_a_driver_looks_at_the_version_first_or_at_the_support(
    stand: Stand, version_first: bool, answer: str
) -> None:
    node = {"driver_version": "550.90.07", "version_checked_first": version_first, "gpus": [{}]}
    stand.says(node)
    said = stand.answers([FABRIC % 3, FABRIC % 2, OLDEST_FABRIC])
    refusal = "error: Not Supported"
    assert list(said.values()) == [None, answer or refusal, refusal, refusal]


def test_a_deprecated_function_says_so(stand: Stand) -> None:
    stand.says({"deprecated": ["nvmlDeviceGetTemperature"], "gpus": [GPU]})
    said = stand.answers(["nvmlDeviceGetTemperature(gpu, 0)", "nvmlDeviceGetTemperatureV(gpu, 0)"])
    deprecated = "error: The requested functionality has been deprecated"
    assert list(said.values()) == [None, deprecated, 40]


def test_a_link_that_is_not_supported_lies_between_others(stand: Stand) -> None:
    links = [{"active": True, "count": 3}, {"supported": False}, {"active": False}]
    stand.says({"gpus": [{"nvlinks": links}]})
    said = stand.answers([LINK % link for link in range(2, 6)])
    assert list(said.values()) == [None, 1, "error: Not Supported", 0, "error: Invalid Argument"]


HANDLES = (
    "(lambda pool, clock: (lambda begin: (len(pool.map(nvmlDeviceGetHandleByIndex, range(4))),"
    " clock() - begin))(clock()))(__import__('multiprocessing.pool').pool.ThreadPool(4),"
    " __import__('time').monotonic)"
)


@pytest.mark.urgent
def test_gpus_without_persistence_are_initialized_one_after_the_other(stand: Stand) -> None:
    gpus = [{}, {"persistence_mode": True}, {"persistence_mode": False}, {}]
    stand.says({"gpus": gpus})
    with stand.asker() as asker:
        stand.says({"open_s": 0.2, "gpus": gpus})
        asker.ask("gpus.clear()")
        first, second = asker.ask(HANDLES), asker.ask(HANDLES)
    assert first[0] == second[0] == 4
    assert first[1] >= 0.6, "three of them, under one lock"
    assert second[1] < 0.2


@pytest.mark.urgent
def test_a_call_waits_while_another_gpu_is_initialized(stand: Stand) -> None:
    gpus = [{"persistence_mode": True, "temperature_c": 40}, {}]
    stand.says({"gpus": gpus})
    thread = "__import__('threading').Thread(target=nvmlDeviceGetHandleByIndex, args=(1,)).start()"
    with stand.asker() as asker:
        stand.says({"open_s": 0.3, "gpus": gpus})
        asker.ask(thread)
        longest_s, end = 0.0, time.monotonic() + 10
        while longest_s <= 0.2 and time.monotonic() < end:  # at first the thread may not have begun
            started = time.monotonic()
            assert asker.ask("nvmlDeviceGetTemperature(gpu, 0)") == 40
            longest_s = max(longest_s, time.monotonic() - started)
        assert longest_s > 0.2


def test_a_throughput_is_counted_over_20_ms(stand: Stand) -> None:
    stand.says({"gpus": [{"pcie_tx_kb_per_s": 500, "power_w": 70}]})
    clock = "__import__('time').monotonic()"
    question = f"(lambda b: [nvmlDeviceGetPcieThroughput(gpu, 0), {clock} - b])({clock})"
    with stand.asker() as asker:
        throughput, took_s = asker.ask(question)
    assert throughput == 500
    assert took_s >= 0.02
