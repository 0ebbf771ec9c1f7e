"""What NVML says in the tests of its reader: two GPUs, and one deviation at a time.

GPU 0 has what data center boards have; GPU 1 lacks some of it and has what they lack. Keys are
those of ``tests/lab/nvml.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lab import nvml
from tests.lab.nvml_keys import lay_over

NEWER = [
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetGpuFabricInfoV",
    "nvmlDeviceGetMarginTemperature",
    "nvmlDeviceGetMemoryAffinity",
    "nvmlDeviceGetNumaNodeId",
    "nvmlDeviceGetPerformanceState",
    "nvmlDeviceGetSramEccErrorStatus",
]
"""Functions that the older driver lacks."""

BLACKWELL = ("recovery_failed", "malformed_packet", "buffer_overrun", "symbol", "effective")
HOPPER = ("replay", "recovery", "crc")
CAPABILITIES = ("read", "write", "nvlink", "atomics")


def links(errors: tuple[str, ...] = HOPPER, wrong: tuple[str, ...] = HOPPER) -> list[Any]:
    """Return four NVLinks to switches, of which link 2 is down and link 3 has errors."""
    found: list[dict[str, Any]] = [
        {
            "active": True,
            "version": "4.0",
            "speed_gbps": 26.562 + link / 1000,
            "remote": f"switch:0000:0{5 + link}:00.0",
            "errors": {name: 7 if link == 3 and name in wrong else 0 for name in errors},
        }
        for link in range(4)
    ]
    found[2] = {"active": False}
    return found


def older_links() -> list[Any]:
    """Return the same links as an older driver shows them: no speed, other counters."""
    names = ("replay", "recovery", "crc_flit", "crc_data")
    found = links()
    for number in (0, 1, 3):
        found[number].pop("speed_gbps")
        found[number].pop("errors")
        found[number]["error_counters"] = {
            name: 10 * number + kind for kind, name in enumerate(names)
        }
    return found


def processes() -> list[Any]:
    """Return those of GPU 1; the first is whoever asks, and not somebody's work."""
    job = {"pid": 4711, "memory_bytes": 2 << 30, "name": "/usr/bin/python3.11\x1b[31m"}
    return [
        {"pid": "self", "kind": "compute", "memory_bytes": 0},
        {**job, "kind": "compute"},
        {"pid": 1200, "kind": "compute", "name": "/usr/bin/gnome-shell", "memory_bytes": 9 << 20},
        {"pid": 1200, "kind": "graphics", "name": "/usr/bin/gnome-shell", "memory_bytes": 9 << 20},
        {"pid": 1300, "kind": "graphics"},
    ]


BOTH: dict[str, Any] = {
    "name": "NVIDIA Test GPU",
    "device_id": "0x233510DE",
    "subsystem_id": "0x18BE10DE",
    "vbios": "96.00.99.00.01",
    "inforom_image": "G520.0200.00.05",
    "inforom_valid": True,
    "memory_total_bytes": 80 << 30,
    "memory_used_bytes": 1 << 30,
    "bar1_used_bytes": 0,
    "power_limit_default_w": 700,
    "temperature_slowdown_c": 90,
    "temperature_shutdown_c": 95,
    "memory_utilization_percent": 99,
    "pcie_link_width_max": 16,
    "pcie_link_generation": 1,
    "pcie_link_generation_max": 5,
    "ecc_default": True,
    "ecc_errors": {
        "volatile_corrected": 1,
        "volatile_uncorrected": 2,
        "aggregate_corrected": 3,
        "aggregate_uncorrected": 4,
    },
    "row_remap": {
        "correctable": 1,
        "uncorrectable": 4,
        "pending": True,
        "failure": False,
        "histogram": {"max": 638, "high": 0, "partial": 0, "low": 0, "none": 2},
    },
}
FIRST: dict[str, Any] = {
    "uuid": "GPU-aaaa",
    "pci_address": "0000:18:00.0",
    "serial": "1650522000001",
    "module_id": 2,
    "platform": {"chassis_serial": "1821624190123", "slot": 200, "tray": 14, "host": 1},
    "board_part_number": "692-2G520-0200-000",
    "power_limit_w": 700,
    "temperature_c": 30,
    "thermal_margin_c": 50,
    "memory_temperature_c": 44,
    "memory_temperature_max_c": 95,
    "utilization_percent": 0,
    "persistence_mode": True,
    "compute_mode": "exclusive_process",
    "virtualization_mode": "passthrough",
    "power_w": 71.5,
    "pcie_link_width": 16,
    "pcie_replays": 67,
    "recovery_action": 2,
    "bar1_total_bytes": 128 << 30,
    "clock_event_reasons": ["idle"],
    "performance_state": 0,
    "clocks": {
        "application_graphics_mhz": 1200,
        "application_memory_mhz": 1593,
        "default_application_graphics_mhz": 1980,
        "default_application_memory_mhz": 2619,
    },
    "ecc_mode": {"current": True, "pending": False},
    "sram_threshold_exceeded": False,
    "mig_mode": False,
    "processes": [],
    "nvlinks": links(),
    "fabric": {
        "state": "completed",
        "degraded_bandwidth": True,
        "route_recovery": False,
        "route_unhealthy": True,
        "incorrect_configuration": "insufficient_nvlinks",
        "cluster_uuid": "4d0c2b1a-7788-4e3f-9a55-0000000000c1",
        "clique_id": 2,
    },
    "cpu_affinity": "0-31,64-130",
    "memory_affinity": "0,3-9",
    "numa_node": 2,
}
SECOND: dict[str, Any] = {
    "uuid": "GPU-bbbb",
    "pci_address": "0001:2a:00.0",
    "power_limit_w": 500.5,
    "temperature_c": 31,
    "thermal_margin_c": 51,
    "fan_speeds_percent": [30, 31],
    "utilization_percent": 37,
    "persistence_mode": False,
    "pcie_link_width": 8,
    "bar1_total_bytes": 256 << 20,
    "clock_event_reasons": ["hw_slowdown", "hw_power_brake", "bit_10"],
    "performance_state": 32,
    "ecc_mode": {"current": True, "pending": True},
    "sram_threshold_exceeded": True,
    "retired_pages": {"single_bit": 3, "double_bit": 1, "pending": True},
    "processes": processes(),
    "fabric": {"state": "not_supported"},
    "cpu_affinity": "0,255",
    "memory_affinity": [],
    "numa_node": -1,
    "errors": {"clocks": "DEPRECATED"},
}
NODE: dict[str, Any] = {
    "driver_version": "570.86.15",
    "cuda_driver_version": "12.8",
    "error_texts": {4711: "A new kind of trouble"},
    "topology": {"0>1": "multiple", "1>0": "node"},
    "p2p": {
        "0>1": dict(zip(CAPABILITIES, range(4), strict=True)),
        "1>0": dict(zip(CAPABILITIES, range(4, 8), strict=True)),
    },
    "gpu": BOTH,
}
OLDER_NODE = {"p2p": {pair: {"nvlink": None, "atomics": None} for pair in ("0>1", "1>0")}}
OLDER_FIRST = {"performance_state": 8, "nvlinks": older_links(), "nvlink_speed_common_gbps": 25.781}
UNKNOWN_ENDS = [{**link, "version": 99, "remote": "switch:nowhere"} if link["active"] else link
                for link in links()]  # fmt: skip
LIMITS = {"shutdown_c": -7, "slowdown_c": -2, "memory_max_c": 0, "max_operating_c": 0}
NO_THRESHOLDS = {"temperature_slowdown_c": None, "temperature_shutdown_c": None}
HIDDEN_ENDS = [{**link, "remote": "unknown:" + ("fffffff:ffff:ff" if number else "")}
               if link["active"] else link for number, link in enumerate(links())]  # fmt: skip
REFUSED = {"ecc_errors": None, "row_remap": None, "utilization_percent": None}
NO_ROOT = {"sram_threshold_exceeded": "NO_PERMISSION"}

DEVIATIONS: dict[str, tuple[Mapping[str, Any], Mapping[str, Any], Mapping[str, Any]]] = {
    # What it is: of the node, of GPU 0, of GPU 1.
    "not_loaded": ({"init_error": "DRIVER_NOT_LOADED"}, {}, {}),
    "code_4711": ({"init_error": 4711}, {}, {}),
    "hang_init": ({"hang": ["nvmlInit"]}, {}, {}),
    "hang_power": ({}, {}, {"hang": ["nvmlDeviceGetEnforcedPowerLimit"]}),
    "hang_heat": ({}, {}, {"hang": ["nvmlDeviceGetTemperature"]}),
    "hang_handle": ({}, {}, {"hang": ["nvmlDeviceGetHandleByIndex"]}),
    "slow_opening": ({"open_s": 1}, {"persistence_mode": False}, {}),
    "desktop": ({}, {}, {"processes": processes()[2:], "utilization_percent": 3}),
    "lost": ({}, {}, {"lost": True}),
    "no_power": ({}, {}, {"power_limit_w": None}),
    "margin": ({}, {}, {"temperature_slowdown_c": None}),
    "limits": ({}, {"temperature_limits": LIMITS},
               {**NO_THRESHOLDS, "temperature_limits": LIMITS}),
    "no_lanes": ({}, {}, {"pcie_link_width_max": 0}),
    "bad_address": ({}, {}, {"pci_address": "../../etc"}),
    "no_ecc": ({}, {}, {"ecc_mode": None, "ecc_default": None, "row_remap": None}),
    "corrupted": ({}, {}, {"inforom_valid": False}),
    "denied": ({}, {"errors": NO_ROOT}, {"errors": NO_ROOT}),
    "mig": ({}, {}, {**REFUSED, "mig_mode": True, "errors": {
        "bar1_total_bytes": "NO_PERMISSION",
        "nvmlDeviceGetGraphicsRunningProcesses": "NO_PERMISSION"}}),
    "fabric_v2": ({}, {"fabric": {
        "version": 2, "status": "INSUFFICIENT_RESOURCES", "degraded_bandwidth": False,
        "access_timeout_recovery": False, "route_unhealthy": False,
        "incorrect_configuration": "none"}}, {}),
    "blackwell": ({}, {"nvlinks": links(BLACKWELL, ("malformed_packet",))}, {}),
    "rates": ({}, {"nvlinks": [
        {"active": True, "rates": {"symbol": "15e-255", "effective": "2e-6"}}]}, {}),
    "no_rack": ({}, {}, {"module_id": 1, "platform": {"slot": 0, "tray": 0, "host": 1}}),
    "no_ways": ({"topology": None, "p2p": None}, {}, {}),
    "no_fabric": ({}, {"fabric": None}, {}),
    "fabric_unknown_error": ({}, {"fabric": None, "errors": {
        "nvmlDeviceGetGpuFabricInfoV": "UNKNOWN"}}, {}),
    "supported_first": ({"version_checked_first": False}, {"fabric": None}, {}),
    "deprecated": ({"deprecated": ["nvmlDeviceGetTemperature", "nvmlDeviceGetPerformanceState"]},
                   {}, {}),
    "deprecated_all": ({"deprecated": ["nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"]},
                       {}, {}),
    "link_3_unsupported": ({}, {"nvlinks": [*links()[:3], {"supported": False}, *links()]}, {}),
    "far_end": ({}, {"nvlinks": UNKNOWN_ENDS}, {}),
    "no_nvlink": ({}, {"nvlinks": None}, {"virtualization_mode": "vgpu"}),
    "hidden_switches": ({}, {"nvlinks": HIDDEN_ENDS}, {}),
}  # fmt: skip


def write(folder: Path, older: bool) -> None:
    """Write a folder with the library and a scenario per deviation; none is ``scenario``."""
    nvml.build(folder, NEWER if older else ())
    for name, (node, first, second) in {**DEVIATIONS, "scenario": ({}, {}, {})}.items():
        base = lay_over(NODE, OLDER_NODE) if older else NODE
        gpu = lay_over(FIRST, OLDER_FIRST) if older else FIRST
        gpus = [lay_over(gpu, first), {**SECOND, **second}]
        nvml.write(folder / name, {**lay_over(base, node), "gpus": gpus})
