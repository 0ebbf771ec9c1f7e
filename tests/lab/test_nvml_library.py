"""Unmodified pynvml over the library: each quantity as the scenario says it."""

from __future__ import annotations

import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.lab import nvml
from tests.lab.nvml_answers import Stand

NODE: dict[str, Any] = {
    "driver_version": "570.86.15",
    "cuda_driver_version": "12.8",
    "nvml_version": "12.570.86.15",
}
GPU: dict[str, Any] = {
    "name": "NVIDIA Test GPU",
    "uuid": "GPU-aaaa",
    "serial": "1650522000001",
    "board_part_number": "692-2G520-0200-000",
    "vbios": "96.00.99.00.01",
    "inforom_image": "G520.0200.00.05",
    "inforom_oem": "2.1",
    "inforom_ecc": "7.16",
    "inforom_power": "1.0",
    "inforom_valid": True,
    "pci_address": "0000:1a:00.0",
    "device_id": "0x233010DE",
    "subsystem_id": "0x16C110DE",
    "brand": "nvidia",
    "architecture": "hopper",
    "compute_capability": "9.0",
    "compute_mode": "exclusive_process",
    "minor_number": 3,
    "module_id": 5,
    "board_id": 6144,
    "numa_node": 1,
    "cpu_affinity": "0-2,65",
    "memory_affinity": [1],
    "power_w": 71.5,
    "power_limit_w": 650,
    "power_limit_requested_w": 660,
    "power_limit_default_w": 700,
    "power_limit_min_w": 200,
    "power_limit_max_w": 701,
    "temperature_c": 31,
    "temperature_slowdown_c": 88,
    "temperature_shutdown_c": 94,
    "temperature_max_operating_c": 86,
    "memory_temperature_c": 40,
    "memory_temperature_max_c": 95,
    "thermal_margin_c": -2,
    "fan_speeds_percent": [30, 45],
    "performance_state": 8,
    "persistence_mode": True,
    "display_active": True,
    "display_mode": False,
    "clock_event_reasons": ["idle", "hw_power_brake", "bit_9"],
    "supported_clock_event_reasons": ["sw_power_cap"],
    "clocks": {
        "graphics_mhz": 345,
        "sm_mhz": 346,
        "memory_mhz": 2619,
        "video_mhz": 765,
        "max_graphics_mhz": 1980,
        "max_sm_mhz": 1981,
        "max_memory_mhz": 2620,
        "max_video_mhz": 1545,
        "application_graphics_mhz": 1200,
        "application_memory_mhz": 1593,
        "default_application_graphics_mhz": 1755,
        "default_application_memory_mhz": 2618,
    },
    "memory_total_bytes": 80 << 30,
    "memory_used_bytes": 3 << 30,
    "memory_reserved_bytes": 1 << 30,
    "bar1_total_bytes": 128 << 30,
    "bar1_used_bytes": 1 << 20,
    "ecc_mode": {"current": True, "pending": False},
    "ecc_default": True,
    "ecc_errors": {
        "volatile_corrected": 1,
        "volatile_uncorrected": 2,
        "aggregate_corrected": (1 << 40) + 3,
        "aggregate_uncorrected": 4,
        "locations": {"dram": {"aggregate_uncorrected": 9}, "sram": {"volatile_corrected": 0}},
    },
    "sram_threshold_exceeded": True,
    "sram_errors": {"aggregate_uncorrected_parity": 5, "volatile_corrected": 6},
    "row_remap": {
        "correctable": 1,
        "uncorrectable": 4,
        "pending": True,
        "failure": False,
        "histogram": {"max": 638, "high": 1, "partial": 2, "low": 3, "none": 4},
    },
    "retired_pages": {"single_bit": 3, "double_bit": 1, "pending": True},
    "mig_mode": {"current": False, "pending": True},
    "mig_devices_max": 7,
    "utilization_percent": 37,
    "memory_utilization_percent": 12,
    "encoder_utilization_percent": 5,
    "decoder_utilization_percent": 6,
    "pcie_link_width": 8,
    "pcie_link_width_max": 16,
    "pcie_link_generation": 1,
    "pcie_link_generation_max": 4,
    "pcie_link_generation_max_device": 5,
    "pcie_replays": 67,
    "pcie_tx_kb_per_s": 500,
    "pcie_rx_kb_per_s": 600,
    "processes": [
        {"pid": 4711, "kind": "compute", "memory_bytes": 2 << 30, "name": "/bin/job",
         "sm_percent": 90, "memory_percent": 20},
        {"pid": 4712, "kind": "graphics"},
        {"pid": "self", "kind": "compute"},
        {"pid": 4713, "kind": "mps", "memory_bytes": 5},
    ],
}  # fmt: skip

QUANTITIES: dict[str, Any] = {
    "nvmlSystemGetDriverVersion()": "570.86.15",
    "nvmlSystemGetNVMLVersion()": "12.570.86.15",
    "nvmlSystemGetCudaDriverVersion()": 12080,
    "nvmlSystemGetCudaDriverVersion_v2()": 12080,
    "nvmlSystemGetProcessName(4711)": "/bin/job",
    "nvmlSystemGetProcessName(4712)": "error: Not Found",
    "nvmlDeviceGetCount()": 1,
    "nvmlDeviceGetIndex(nvmlDeviceGetHandleByUUID('GPU-aaaa'))": 0,
    "nvmlDeviceGetIndex(nvmlDeviceGetHandleBySerial('1650522000001'))": 0,
    "nvmlDeviceGetIndex(nvmlDeviceGetHandleByPciBusId('00000000:1A:00.0'))": 0,
    "nvmlDeviceGetHandleByPciBusId('00000000:1B:00.0')": "error: Not Found",
    "nvmlDeviceGetHandleByIndex(1)": "error: Invalid Argument",
    "nvmlDeviceGetName(gpu)": "NVIDIA Test GPU",
    "nvmlDeviceGetUUID(gpu)": "GPU-aaaa",
    "nvmlDeviceGetSerial(gpu)": "1650522000001",
    "nvmlDeviceGetBoardPartNumber(gpu)": "692-2G520-0200-000",
    "nvmlDeviceGetVbiosVersion(gpu)": "96.00.99.00.01",
    "nvmlDeviceGetInforomImageVersion(gpu)": "G520.0200.00.05",
    "[nvmlDeviceGetInforomVersion(gpu, n) for n in range(3)]": ["2.1", "7.16", "1.0"],
    "nvmlDeviceValidateInforom(gpu)": None,
    "nvmlDeviceGetPciInfo(gpu)": {
        "busIdLegacy": "0000:1A:00.0",
        "domain": 0,
        "bus": 0x1A,
        "device": 0,
        "pciDeviceId": 0x233010DE,
        "pciSubSystemId": 0x16C110DE,
        "busId": "00000000:1A:00.0",
    },
    "nvmlDeviceGetBrand(gpu) == NVML_BRAND_NVIDIA": True,
    "nvmlDeviceGetArchitecture(gpu) == NVML_DEVICE_ARCH_HOPPER": True,
    "nvmlDeviceGetCudaComputeCapability(gpu)": [9, 0],
    "nvmlDeviceGetComputeMode(gpu) == NVML_COMPUTEMODE_EXCLUSIVE_PROCESS": True,
    "nvmlDeviceGetMinorNumber(gpu)": 3,
    "nvmlDeviceGetModuleId(gpu)": 5,
    "nvmlDeviceGetBoardId(gpu)": 6144,
    "nvmlDeviceGetNumaNodeId(gpu)": 1,
    "nvmlDeviceGetCpuAffinity(gpu, 2)": [7, 2],
    "nvmlDeviceGetCpuAffinityWithinScope(gpu, 1, 0)": [7],
    "nvmlDeviceGetMemoryAffinity(gpu, 1, 0)": [2],
    "nvmlDeviceGetPowerUsage(gpu)": 71500,
    "nvmlDeviceGetEnforcedPowerLimit(gpu)": 650000,
    "nvmlDeviceGetPowerManagementLimit(gpu)": 660000,
    "nvmlDeviceGetPowerManagementDefaultLimit(gpu)": 700000,
    "nvmlDeviceGetPowerManagementLimitConstraints(gpu)": [200000, 701000],
    "nvmlDeviceGetTemperature(gpu, NVML_TEMPERATURE_GPU)": 31,
    "nvmlDeviceGetTemperatureV(gpu, NVML_TEMPERATURE_GPU)": 31,
    "[nvmlDeviceGetTemperatureThreshold(gpu, kind) for kind in range(4)]": [94, 88, 95, 86],
    "nvmlDeviceGetTemperatureThreshold(gpu, NVML_TEMPERATURE_THRESHOLD_ACOUSTIC_CURR)":
        "error: Not Supported",
    "nvmlDeviceGetMarginTemperature(gpu)": -2,
    "nvmlDeviceGetNumFans(gpu)": 2,
    "nvmlDeviceGetFanSpeed(gpu)": 30,
    "nvmlDeviceGetFanSpeed_v2(gpu, 1)": 45,
    "nvmlDeviceGetFanSpeed_v2(gpu, 2)": "error: Invalid Argument",
    "nvmlDeviceGetPerformanceState(gpu)": 8,
    "nvmlDeviceGetPowerState(gpu)": 8,
    "nvmlDeviceGetPersistenceMode(gpu)": 1,
    "nvmlDeviceGetDisplayActive(gpu)": 1,
    "nvmlDeviceGetDisplayMode(gpu)": 0,
    "nvmlDeviceGetCurrentClocksEventReasons(gpu)": 0x281,
    "nvmlDeviceGetCurrentClocksThrottleReasons(gpu)": 0x281,
    "nvmlDeviceGetSupportedClocksEventReasons(gpu)": 4,
    "[nvmlDeviceGetClockInfo(gpu, n) for n in range(4)]": [345, 346, 2619, 765],
    "[nvmlDeviceGetMaxClockInfo(gpu, n) for n in range(4)]": [1980, 1981, 2620, 1545],
    "[nvmlDeviceGetApplicationsClock(gpu, n) for n in (0, 2)]": [1200, 1593],
    "[nvmlDeviceGetDefaultApplicationsClock(gpu, n) for n in (0, 2)]": [1755, 2618],
    "[nvmlDeviceGetClock(gpu, 0, n) for n in range(4)]": [345, 1200, 1755, 1980],
    "nvmlDeviceGetMemoryInfo(gpu)": {"total": 80 << 30, "free": 77 << 30, "used": 3 << 30},
    "nvmlDeviceGetMemoryInfo(gpu, nvmlMemory_v2).used": 2 << 30,
    "nvmlDeviceGetMemoryInfo(gpu, nvmlMemory_v2).reserved": 1 << 30,
    "nvmlDeviceGetMemoryInfo(gpu, nvmlMemory_v2).free": 77 << 30,
    "nvmlDeviceGetBAR1MemoryInfo(gpu)":
        {"bar1Total": 128 << 30, "bar1Free": (128 << 30) - (1 << 20), "bar1Used": 1 << 20},
    "nvmlDeviceGetEccMode(gpu)": [1, 0],
    "nvmlDeviceGetDefaultEccMode(gpu)": [1],
    "[nvmlDeviceGetTotalEccErrors(gpu, kind, scope) for scope in (0, 1) for kind in (0, 1)]":
        [1, 2, (1 << 40) + 3, 4],
    "nvmlDeviceGetMemoryErrorCounter(gpu, 1, 1, NVML_MEMORY_LOCATION_DRAM)": 9,
    "nvmlDeviceGetMemoryErrorCounter(gpu, 0, 0, NVML_MEMORY_LOCATION_SRAM)": 0,
    "nvmlDeviceGetMemoryErrorCounter(gpu, 0, 0, NVML_MEMORY_LOCATION_CBU)": "error: Not Supported",
    "[getattr(filled(c_nvmlEccSramErrorStatus_v1_t(), nvmlDeviceGetSramEccErrorStatus, gpu), name)"
    " for name in ('bThresholdExceeded', 'aggregateUncParity', 'volatileCor', 'aggregateCor')]":
        [1, 5, 6, 0],
    "nvmlDeviceGetRemappedRows(gpu)": [1, 4, 1, 0],
    "nvmlDeviceGetRowRemapperHistogram(gpu)":
        {"max": 638, "high": 1, "partial": 2, "low": 3, "none": 4},
    "[len(nvmlDeviceGetRetiredPages(gpu, cause)) for cause in (0, 1)]": [3, 1],
    "nvmlDeviceGetRetiredPagesPendingStatus(gpu)": 1,
    "nvmlDeviceGetMigMode(gpu)": [0, 1],
    "nvmlDeviceGetMaxMigDeviceCount(gpu)": 7,
    "nvmlDeviceGetUtilizationRates(gpu)": {"gpu": 37, "memory": 12},
    "nvmlDeviceGetEncoderUtilization(gpu)[0]": 5,
    "nvmlDeviceGetDecoderUtilization(gpu)[0]": 6,
    "nvmlDeviceGetCurrPcieLinkWidth(gpu)": 8,
    "nvmlDeviceGetMaxPcieLinkWidth(gpu)": 16,
    "nvmlDeviceGetCurrPcieLinkGeneration(gpu)": 1,
    "nvmlDeviceGetMaxPcieLinkGeneration(gpu)": 4,
    "nvmlDeviceGetGpuMaxPcieLinkGeneration(gpu)": 5,
    "nvmlDeviceGetPcieReplayCounter(gpu)": 67,
    "[nvmlDeviceGetPcieThroughput(gpu, n) for n in (0, 1)]": [500, 600],
    "[(p.pid == __import__('os').getpid() or p.pid, p.usedGpuMemory)"
    " for p in nvmlDeviceGetComputeRunningProcesses(gpu)]": [[4711, 2 << 30], [True, None]],
    "[(p.pid, p.usedGpuMemory) for p in nvmlDeviceGetComputeRunningProcesses_v2(gpu)][0]":
        [4711, 2 << 30],
    "[(p.pid, p.usedGpuMemory) for p in nvmlDeviceGetGraphicsRunningProcesses(gpu)]":
        [[4712, None]],
    "[(p.pid, p.usedGpuMemory) for p in nvmlDeviceGetMPSComputeRunningProcesses(gpu)]":
        [[4713, 5]],
    "[(p.pid, p.smUtil, p.memUtil) for p in nvmlDeviceGetProcessUtilization(gpu, 0)]":
        [[4711, 90, 20]],
    "[(v.nvmlReturn, v.value.ullVal) for v in nvmlDeviceGetFieldValues(gpu,"
    " [NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_POWER_INSTANT, NVML_FI_DEV_REMAPPED_UNC])]":
        [[0, 40], [0, 71500], [0, 4]],
    "nvmlDeviceGetFieldValues(gpu, [NVML_FI_DEV_NVSWITCH_CONNECTED_LINK_COUNT])[0].nvmlReturn": 3,
    "nvmlDeviceIsMigDeviceHandle(gpu).value": 0,
    "nvmlDeviceGetGpuInstanceId(gpu)": "error: Not Supported",
    "nvmlShutdown()": None,
    "nvmlSystemGetDriverVersion() ": "error: Uninitialized",
}  # fmt: skip


def test_every_quantity_is_read_back(stand: Stand) -> None:
    stand.says({**NODE, "gpus": [GPU]})
    said = stand.answers(list(QUANTITIES))
    assert said.pop("nvmlInit()") is None
    assert said == QUANTITIES


def test_another_value_is_noticed(stand: Stand) -> None:
    """Negative control of the comparison above."""
    stand.says({**NODE, "gpus": [{**GPU, "pcie_replays": 68}]})
    said = stand.answers(list(QUANTITIES))
    different = [question for question in QUANTITIES if said[question] != QUANTITIES[question]]
    assert different == ["nvmlDeviceGetPcieReplayCounter(gpu)"]


OF_A_GPU = [each for each in QUANTITIES if each.endswith("(gpu)") and each[:4] == "nvml"]


def test_what_a_scenario_does_not_give_is_not_supported(stand: Stand) -> None:
    stand.says({"gpus": [{}]})
    said = stand.answers([*OF_A_GPU, "nvmlSystemGetDriverVersion()"])
    assert said.pop("nvmlInit()") is None
    assert set(said.values()) == {"error: Not Supported"}


def test_energy_goes_on_with_power(stand: Stand) -> None:
    stand.says({"gpus": [{"power_w": 100, "total_energy_j": 5e6}]})
    question = "[nvmlDeviceGetTotalEnergyConsumption(gpu), __import__('time').clock_gettime(7)]"
    with stand.asker() as asker:
        energy_mj, up_s = asker.ask(question)
        assert energy_mj / 1000 == pytest.approx(5e6 + 100 * up_s, abs=100)
        more_mj, later_s = asker.ask(question)
    assert math.isclose(more_mj - energy_mj, (later_s - up_s) * 1e5, rel_tol=0.5, abs_tol=50)


def test_values_change_while_a_program_runs(stand: Stand) -> None:
    stand.says({"gpus": [{"temperature_c": 31, "name": "A"}]})
    temperature = "nvmlDeviceGetTemperature(gpu, 0)"
    with stand.asker() as asker:
        assert asker.ask(temperature) == 31
        stand.says({"gpus": [{"temperature_c": 32, "name": "B"}]})
        assert (asker.ask(temperature), asker.ask("nvmlDeviceGetName(gpu)")) == (32, "B")
        stand.scenario.unlink()
        assert asker.ask(temperature) == "error: Invalid Argument"


def test_the_scenario_may_lie_beside_the_library(nvml_library: Path, tmp_path: Path) -> None:
    shutil.copy(nvml_library / nvml.LIBRARY, tmp_path / nvml.LIBRARY)
    beside = Stand(tmp_path, tmp_path / "scenario")
    beside.says({"gpus": [{"temperature_c": 44}]})
    environment = beside.environment()
    del environment["HWLAB_NVML"]
    code = "from pynvml import *; nvmlInit(); gpu = nvmlDeviceGetHandleByIndex(0); "
    code += "print(nvmlDeviceGetTemperature(gpu, 0))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True)
    assert done.stdout == b"44\n", done.stderr.decode()


def test_many_threads_read_while_the_scenario_changes(stand: Stand) -> None:
    stand.says({"gpus": [{"mig_mode": True, "temperature_c": 40}]})
    pool = "__import__('multiprocessing.pool').pool.ThreadPool(4)"
    question = f"{pool}.map(lambda _: nvmlDeviceGetTemperature(gpu, 0), range(20000))"
    with stand.asker() as asker:
        asker.send(f"sorted(set({question}))")
        written = 0
        while not asker.has_answered():
            written += 1
            stand.says({"gpus": [{"mig_mode": True, "temperature_c": 40 + written % 2}]})
        assert asker.answer() == [40, 41]
    assert written > 10
