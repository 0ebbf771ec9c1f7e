"""What goes wrong in a scenario goes wrong in pynvml, with NVML's own errors."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from tests.lab import nvml
from tests.lab.nvml_answers import Stand

TWO: dict[str, Any] = {
    "driver_version": "570.86.15",
    "gpu": {"name": "Test", "power_w": 70, "power_limit_w": 700, "clocks": {"sm_mhz": 345}},
    "gpus": [{}, {}],
}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("DRIVER_NOT_LOADED", "Driver Not Loaded"),
        ("LIB_RM_VERSION_MISMATCH", "RM has detected an NVML/RM version mismatch."),
        ("NO_PERMISSION", "Insufficient Permissions"),
        (4711, "A new kind of trouble"),
    ],
)
def test_nvml_cannot_start(stand: Stand, error: str | int, words: str) -> None:
    stand.says({**TWO, "init_error": error, "error_texts": {4711: "A new kind of trouble"}})
    said = stand.answers(["nvmlDeviceGetCount()"])
    assert said == {
        "nvmlInit()": f"error: {words}",
        "nvmlDeviceGetCount()": "error: Uninitialized",
    }


def test_without_a_scenario_there_is_no_driver(stand: Stand) -> None:
    assert stand.answers([]) == {"nvmlInit()": "error: Driver Not Loaded"}


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("NOT_SUPPORTED", "Not Supported"),
        ("NO_PERMISSION", "Insufficient Permissions"),
        ("GPU_IS_LOST", "GPU is lost"),
        ("DEPRECATED", "The requested functionality has been deprecated"),
        ("UNKNOWN", "Unknown Error"),
    ],
)
def test_a_quantity_fails_on_one_gpu(stand: Stand, error: str, words: str) -> None:
    faulty = {"errors": {"power_w": error, "nvmlDeviceGetClockInfo": error}}
    stand.says({**TWO, "gpus": [{}, faulty]})
    power, clock = "nvmlDeviceGetPowerUsage(gpus[%d])", "nvmlDeviceGetClockInfo(gpus[%d], 1)"
    said = stand.answers([power % 0, power % 1, clock % 0, clock % 1, "nvmlDeviceGetName(gpus[1])"])
    assert list(said.values()) == [
        None, 70000, f"error: {words}", 345, f"error: {words}", "Test"
    ]  # fmt: skip


def test_a_lost_gpu_is_counted_and_cannot_be_opened(stand: Stand) -> None:
    stand.says({**TWO, "gpus": [{}, {"lost": True}]})
    handle = "nvmlDeviceGetHandleByIndex(1)"
    said = stand.answers(["nvmlDeviceGetCount()", handle, "nvmlDeviceGetName(gpus[0])"])
    assert list(said.values()) == [None, 2, "error: GPU is lost", "Test"]


def test_a_gpu_that_cannot_be_opened_for_another_reason(stand: Stand) -> None:
    stand.says({**TWO, "gpus": [{}, {"errors": {"handle": "NO_PERMISSION"}}]})
    handle = "nvmlDeviceGetHandleByIndex(1)"
    assert stand.answers([handle])[handle] == "error: Insufficient Permissions"


def test_a_gpu_gets_lost_while_a_program_runs(stand: Stand) -> None:
    stand.says(TWO)
    with stand.asker() as asker:
        assert asker.ask("nvmlDeviceGetName(gpus[1])") == "Test"
        stand.says({**TWO, "gpus": [{}, {"lost": "opened"}]})
        assert asker.ask("nvmlDeviceGetName(gpus[1])") == "error: GPU is lost"
        assert asker.ask("nvmlDeviceGetHandleByIndex(1) is not None") is True
        assert asker.ask("nvmlDeviceGetName(gpus[0])") == "Test"


def test_a_corrupted_inforom(stand: Stand) -> None:
    stand.says({"gpus": [{"inforom_valid": False}]})
    question = "nvmlDeviceValidateInforom(gpu)"
    assert stand.answers([question])[question] == "error: Corrupted infoROM"


def test_a_call_hangs_and_nothing_else_does(stand: Stand) -> None:
    stand.says({**TWO, "gpus": [{}, {"hang": ["nvmlDeviceGetPowerUsage"]}]})
    thread = (
        "__import__('threading').Thread(target=nvmlDeviceGetPowerUsage, args=(gpus[1],),"
        " daemon=True).start()"
    )
    with stand.asker() as asker:
        asker.ask(thread)
        assert asker.ask("nvmlDeviceGetPowerUsage(gpus[0])") == 70000
        assert asker.ask("nvmlDeviceGetName(gpus[1])") == "Test"
        assert asker.ask("__import__('threading').active_count()") == 2
        asker.send("nvmlDeviceGetPowerUsage(gpus[1])")
        assert not asker.has_answered(within_s=0.3)


def test_every_version_of_a_function_hangs(stand: Stand) -> None:
    stand.says(TWO)
    with stand.asker() as asker:
        stand.says({**TWO, "hang": ["nvmlDeviceGetHandleByIndex"]})
        asker.send("nvmlDeviceGetHandleByIndex(0)")
        assert not asker.has_answered(within_s=0.3)


def test_a_call_takes_as_long_as_told(stand: Stand) -> None:
    stand.says(TWO)
    with stand.asker() as asker:
        stand.says({**TWO, "delay_ms": 60})
        started = time.monotonic()
        assert asker.ask("nvmlDeviceGetPowerUsage(gpu)") == 70000
        assert time.monotonic() - started >= 0.06


def test_a_function_of_a_newer_driver(stand: Stand, tmp_path: Path) -> None:
    names = ["nvmlDeviceGetMemoryInfo_v2", "nvmlSystemGetCudaDriverVersion"]
    stand.says({**TWO, "unsupported": names})
    question = "nvmlSystemGetCudaDriverVersion_v2()"
    assert stand.answers([question])[question] == "error: Function Not Found"
    older = Stand(nvml.build(tmp_path / "older", without=["nvmlDeviceGetName"]), stand.scenario)
    stand.says(TWO)
    questions = ["nvmlDeviceGetName(gpu)", "nvmlDeviceGetPowerUsage(gpu)"]
    assert list(older.answers(questions).values()) == [None, "error: Function Not Found", 70000]


@pytest.mark.urgent
def test_a_call_that_reads_several_values_is_one_call(stand: Stand) -> None:
    fans = {"fan_speeds_percent": [1, 2], "utilization_percent": 1, "memory_utilization_percent": 2}
    stand.says({"gpus": [fans]})
    with stand.asker() as asker:
        stand.says({"gpus": [fans], "delay_ms": 200})
        for question in (
            "nvmlDeviceGetUtilizationRates(gpu)",
            "nvmlDeviceGetFanSpeed_v2(gpu, 1)",
            "nvmlDeviceGetFieldValues(gpu, [82, 83, 91, 94])[0].nvmlReturn",
        ):
            started = time.monotonic()
            assert asker.ask(question)
            assert time.monotonic() - started < 0.39
