"""nvitop and gpustat over the library: what they print is what the scenario says.

They were written against NVIDIA's library and know nothing of this one, so they show that its
functions and structures are the real ones, and that the payload's reader reads them as they do.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.lab.nvml_answers import Stand

MIB = 1 << 20
RESERVED_BYTES = 512 * MIB

NVITOP = """
import json
from nvitop import Device
print(json.dumps([{
    "uuid": d.uuid(), "name": d.name(), "pci_address": d.bus_id().lower()[4:],
    "temperature_c": d.temperature(), "power_w": d.power_usage() / 1000,
    "power_limit_w": d.power_limit() / 1000, "memory_total_bytes": d.memory_total(),
    "allocated_bytes": d.memory_used(), "utilization_percent": d.gpu_utilization(),
    "memory_utilization_percent": d.memory_utilization(), "fan_percent": d.fan_speed(),
    "performance_state": int(d.performance_state()[1:]),
    "persistence_mode": d.persistence_mode() == "Enabled",
    "volatile_uncorrected": d.total_volatile_uncorrected_ecc_errors(),
    "clocks": list(d.clock_infos()), "max_clocks": list(d.max_clock_infos()),
    "processes": {str(pid): [p.type, p.gpu_memory()] for pid, p in d.processes().items()},
} for d in Device.all()]))
"""

PAYLOAD = """
import json
from hwcheck.node.nvml.nvml import Nvml
print(json.dumps([{
    "uuid": g.uuid(), "name": g.name(), "pci_address": g.pci_address(),
    "temperature_c": g.temperature_c(), "power_limit_w": g.power_limit_w(),
    "memory_total_bytes": g.memory_total_bytes(), "memory_used_bytes": g.memory_used_bytes(),
    "utilization_percent": g.utilization_percent(), "fan_percent": g.fan_speeds_percent()[0],
    "performance_state": g.performance_state(), "persistence_mode": g.persistence_mode(),
    "volatile_uncorrected": g.ecc_errors().volatile_uncorrected,
    "processes": {str(p.pid): [p.kind[0].upper(), p.memory_bytes] for p in g.processes()},
} for g in Nvml().gpus()]))
"""

TABLE = re.compile(
    r"^\| +(?P<index>\d+)  (?P<name>.+?) +(?P<persistence>On|Off) \| (?P<address>\S+) \S+ +\|"
    r" +(?:Disabled +)?(?P<uncorrected>\d+) \|[^\n]*\n"
    r"\| *(?P<fan>\d+)% +(?P<temperature>\d+)C +P(?P<state>\d+) +(?P<power>\d+)W / "
    r"(?P<limit>\d+)W \|"
    r" +(?P<used>[\d.]+)MiB / (?P<total>[\d.]+)GiB \| +(?P<use>\d+)% ",
    re.M,
)


def gpu(index: int, pids: Sequence[int]) -> dict[str, Any]:
    """Return a GPU that has no value in common with its neighbors."""
    own = [pid for place, pid in enumerate(pids) if place == index]
    return {
        "uuid": f"GPU-00000000-0000-0000-0000-00000000000{index}",
        "pci_address": f"0000:{0x18 + 0x11 * index:02x}:00.0",
        "temperature_c": 31 + index,
        "power_w": 70 + 20 * index,
        "power_limit_w": 700 - index,
        "memory_used_bytes": RESERVED_BYTES + (200 + index) * MIB,
        "utilization_percent": 10 + index,
        "memory_utilization_percent": 3 + index,
        "fan_speeds_percent": [30 + index, 90],
        "performance_state": index,
        "persistence_mode": index % 2 == 0,
        "ecc_errors": {"volatile_uncorrected": 5 * index},
        "clocks": {
            f"{most}{domain}_mhz": base + 100 * index
            for most, high in (("", 0), ("max_", 50))
            for domain, base in (
                ("graphics", 310 + high), ("sm", 311 + high), ("memory", 312 + high),
                ("video", 313 + high),
            )
        },
        "processes": [
            {"pid": pid, "kind": kind, "memory_bytes": (100 + index) * MIB, "name": "/bin/sleep"}
            for pid, kind in zip(own, ["compute", "graphics"][index:], strict=False)
        ],
    }  # fmt: skip


def eight(pids: Sequence[int]) -> dict[str, Any]:
    return {
        "driver_version": "570.86.15",
        "cuda_driver_version": "12.8",
        "gpu": {
            "name": "NVIDIA Test GPU",
            "memory_total_bytes": 80 << 30,
            "memory_reserved_bytes": RESERVED_BYTES,
            "ecc_mode": True,
            "mig_mode": False,
            "compute_mode": "default",
            "ecc_errors": {
                "volatile_corrected": 0,
                "aggregate_corrected": 0,
                "aggregate_uncorrected": 0,
            },
        },
        "gpus": [gpu(index, pids) for index in range(8)],
    }


@pytest.fixture
def pids() -> Iterator[list[int]]:
    """Return two processes that are there, as other tools look up whose they are."""
    running = [subprocess.Popen(["sleep", "60"]) for _ in range(2)]
    yield [process.pid for process in running]
    for process in running:
        process.kill()
        process.wait()


def run(stand: Stand, *command: str) -> str:
    environment = stand.environment(COLUMNS="79", TERM="dumb")
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tool(name: str) -> str:
    return str(Path(sys.executable).with_name(name))


def processes(own: dict[str, Any]) -> dict[str, list[Any]]:
    return {
        str(each["pid"]): [each["kind"][0].upper(), each["memory_bytes"]]
        for each in own["processes"]
    }


def nvitop_rows(output: str) -> list[dict[str, Any]]:
    return [
        {
            "index": int(row["index"]),
            "name": f"NVIDIA {row['name']}",
            "pci_address": row["address"].lower()[4:],
            "persistence_mode": row["persistence"] == "On",
            "volatile_uncorrected": int(row["uncorrected"]),
            "fan_percent": int(row["fan"]),
            "temperature_c": int(row["temperature"]),
            "performance_state": int(row["state"]),
            "power_w": int(row["power"]),
            "power_limit_w": int(row["limit"]),
            "allocated_bytes": float(row["used"]) * MIB,
            "memory_total_bytes": float(row["total"]) * 1024 * MIB,
            "utilization_percent": int(row["use"]),
        }
        for row in TABLE.finditer(output)
    ]


def expected(scenario: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the scenario says, in the words of this file."""
    found = []
    for index, own in enumerate(scenario["gpus"]):
        order = ("graphics", "sm", "memory", "video")
        derived = {
            "index": index,
            "name": scenario["gpu"]["name"],
            "memory_total_bytes": scenario["gpu"]["memory_total_bytes"],
            "allocated_bytes": own["memory_used_bytes"] - RESERVED_BYTES,
            "fan_percent": own["fan_speeds_percent"][0],
            "volatile_uncorrected": own["ecc_errors"]["volatile_uncorrected"],
            "clocks": [own["clocks"][f"{domain}_mhz"] for domain in order],
            "max_clocks": [own["clocks"][f"max_{domain}_mhz"] for domain in order],
            "processes": processes(own),
        }
        found.append({**own, **derived})
    return found


def differences(says: list[dict[str, Any]], scenario: dict[str, Any]) -> list[str]:
    """Return each quantity in which a tool and the scenario differ."""
    wanted = expected(scenario)
    assert len(says) == len(wanted)
    return [
        f"gpu{index}: {key}: {value} is not {wanted[index][key]}"
        for index, row in enumerate(says)
        for key, value in row.items()
        if value != wanted[index][key]
    ]


def test_what_nvitop_prints(stand: Stand, pids: list[int]) -> None:
    scenario = eight(pids)
    stand.says(scenario)
    output = run(stand, tool("nvitop"), "-1", "--ascii")
    assert re.search(r"Driver Version: 570\.86\.15 +CUDA Driver Version: 12\.8", output)
    assert differences(nvitop_rows(output), scenario) == []
    for index, kind in enumerate("CG"):
        row = rf"^\| +{index} +{pids[index]} {kind} +\S+ +(\d+\.?\d*)MiB .* sleep 60 +\|$"
        found = re.search(row, output, re.M)
        assert found, output
        assert float(found[1]) == 100 + index


def test_what_nvitops_library_reads(stand: Stand, pids: list[int]) -> None:
    scenario = eight(pids)
    stand.says(scenario)
    says = json.loads(run(stand, sys.executable, "-c", NVITOP))
    assert differences(says, scenario) == []


def gpustat_rows(output: str) -> list[dict[str, Any]]:
    return [
        {
            "index": row["index"],
            "uuid": row["uuid"],
            "name": row["name"],
            "temperature_c": row["temperature.gpu"],
            "fan_percent": row["fan.speed"],
            "utilization_percent": row["utilization.gpu"],
            "power_w": row["power.draw"],
            "power_limit_w": row["enforced.power.limit"],
            "allocated_bytes": row["memory.used"] * MIB,
            "memory_total_bytes": row["memory.total"] * MIB,
        }
        for row in json.loads(output)["gpus"]
    ]


def test_what_gpustat_prints(stand: Stand, pids: list[int]) -> None:
    scenario = eight(pids)
    stand.says(scenario)
    output = run(stand, tool("gpustat"), "--json")
    said = json.loads(output)
    assert said["driver_version"] == "570.86.15"
    assert differences(gpustat_rows(output), scenario) == []
    users = [
        [(each["pid"], each["gpu_memory_usage"]) for each in row["processes"]]
        for row in said["gpus"]
    ]
    assert users == [[(pids[0], 100)], [(pids[1], 101)], [], [], [], [], [], []]


def test_the_payload_reads_the_same(stand: Stand, pids: list[int]) -> None:
    scenario = eight(pids)
    stand.says(scenario)
    says = json.loads(run(stand, sys.executable, "-c", PAYLOAD))
    assert differences(says, scenario) == []
    theirs = json.loads(run(stand, sys.executable, "-c", NVITOP))
    for ours, other in zip(says, theirs, strict=True):
        shared = sorted(ours.keys() & other.keys())
        assert len(shared) == 12
        assert {key: ours[key] for key in shared} == {key: other[key] for key in shared}


@pytest.mark.parametrize(
    ("key", "value"),
    [("temperature_c", 77), ("power_limit_w", 555), ("memory_used_bytes", 900 * MIB),
     ("fan_speeds_percent", [77]), ("utilization_percent", 1), ("name", "NVIDIA Other GPU")],
)  # fmt: skip
def test_another_scenario_is_noticed(
    stand: Stand, pids: list[int], key: str, value: object
) -> None:
    """Negative control of the comparisons above."""
    scenario = eight(pids)
    other = eight(pids)
    other["gpus"][5][key] = value
    stand.says(other)
    rows = {
        "nvitop": nvitop_rows(run(stand, tool("nvitop"), "-1", "--ascii")),
        "gpustat": gpustat_rows(run(stand, tool("gpustat"), "--json")),
        "payload": json.loads(run(stand, sys.executable, "-c", PAYLOAD)),
    }
    for says in rows.values():
        assert [each[:5] for each in differences(says, scenario)] == ["gpu5:"]
