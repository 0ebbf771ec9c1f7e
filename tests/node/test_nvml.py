"""nvml.py and the installed pynvml over a C library that answers as NVML does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.nvml import Nvml, sysfs_address

ROOT = Path(__file__).parents[2]

ASK_EVERYTHING = """
import json, os
from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.nvml import Nvml

QUANTITIES = ["pci_address", "power_limit_w", "power_limit_default_w", "temperature_c",
    "temperature_slowdown_c", "utilization_percent", "persistence_mode", "pcie_link_width",
    "pcie_link_width_max", "pcie_link_generation", "pcie_link_generation_max", "compute_processes"]

def ask(reader):
    try:
        return reader()
    except CouldNotMeasure as error:
        return "could not measure: " + str(error)

nvml = Nvml(timeout_s=float(os.environ.get("BOUND_S", "10")))
said = {"status": nvml.status(), "driver": ask(nvml.driver_version)}
gpus = ask(nvml.gpus)
if isinstance(gpus, list):
    said["gpus"] = {gpu.subject: {q: ask(getattr(gpu, q)) for q in QUANTITIES} for gpu in gpus}
else:
    said["gpus"] = gpus
said["facts"] = nvml.facts()
said["status after"] = nvml.status()
print(json.dumps(said))
"""

Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(fake_nvml: Path) -> Ask:
    """Ask every question of a node whose NVML deviates as named, in a process of its own."""

    def run(deviation: str = "", library: str = "new", bound_s: float = 10) -> dict[str, Any]:
        own = {
            "LD_LIBRARY_PATH": str(fake_nvml / library),
            "FAKE_NVML": deviation,
            "BOUND_S": str(bound_s),
            "PYTHONPATH": str(ROOT),
        }
        done = subprocess.run(
            [sys.executable, "-c", ASK_EVERYTHING],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    return run


def test_two_healthy_gpus(ask: Ask) -> None:
    said = ask()
    assert (said["status"], said["driver"]) == ("ok", "570.86.15")
    assert said["gpus"] == {
        "gpu0": {
            "pci_address": "0000:18:00.0",
            "power_limit_w": 700.0,
            "power_limit_default_w": 700.0,
            "temperature_c": 30,
            "temperature_slowdown_c": 90,
            "utilization_percent": 0,
            "persistence_mode": True,
            "pcie_link_width": 16,
            "pcie_link_width_max": 16,
            "pcie_link_generation": 1,
            "pcie_link_generation_max": 5,
            "compute_processes": [],
        },
        "gpu1": {
            "pci_address": "0001:2a:00.0",
            "power_limit_w": 500.5,
            "power_limit_default_w": 700.0,
            "temperature_c": 31,
            "temperature_slowdown_c": 90,
            "utilization_percent": 37,
            "persistence_mode": False,
            "pcie_link_width": 8,
            "pcie_link_width_max": 16,
            "pcie_link_generation": 1,
            "pcie_link_generation_max": 5,
            "compute_processes": [4711],
        },
    }


def test_facts_leave_out_what_a_gpu_does_not_say(ask: Ask) -> None:
    first, second = ask()["facts"]
    assert first == {
        "index": 0,
        "name": "NVIDIA Test GPU",
        "uuid": "GPU-aaaa",
        "pci_address": "0000:18:00.0",
        "pci_device_id": "0x233510DE",
        "pci_subsystem_id": "0x18BE10DE",
        "serial": "1650522000001",
        "vbios": "96.00.99.00.01",
        "memory_total_bytes": 80 << 30,
        "power_limit_default_w": 700.0,
        "nvlink_links": 3,
    }
    assert set(first) - set(second) == {"serial"}
    assert second["nvlink_links"] == 0


def test_a_quantity_that_is_not_supported_names_gpu_and_quantity(ask: Ask) -> None:
    gpus = ask("no_power")["gpus"]
    assert gpus["gpu1"]["power_limit_w"] == "could not measure: gpu1: power limit: Not Supported"
    assert gpus["gpu0"]["power_limit_w"] == 700.0
    assert gpus["gpu1"]["temperature_c"] == 31


def test_a_lost_gpu_does_not_hide_the_others(ask: Ask) -> None:
    said = ask("lost")
    assert said["gpus"]["gpu0"]["pci_address"] == "0000:18:00.0"
    assert set(said["gpus"]["gpu1"].values()) == {"could not measure: gpu1: GPU is lost"}
    assert said["facts"][1] == {"index": 1, "error": "GPU is lost"}


@pytest.mark.parametrize(
    ("deviation", "status"),
    [("not_loaded", "Driver Not Loaded"), ("code_4711", "A new kind of trouble")],
)
def test_nvml_that_does_not_start_says_why(ask: Ask, deviation: str, status: str) -> None:
    said = ask(deviation)
    assert said["status"] == status
    assert said["gpus"] == said["driver"] == f"could not measure: {status}"
    assert said["facts"] == []


def test_a_thermal_margin_stands_in_for_the_slowdown_threshold(ask: Ask) -> None:
    assert ask("margin")["gpus"]["gpu1"]["temperature_slowdown_c"] == 31 + 51
    old = ask("margin", library="old")["gpus"]["gpu1"]["temperature_slowdown_c"]
    assert old == "could not measure: gpu1: slowdown temperature: Not Supported"


def test_an_old_driver_is_asked_with_the_function_it_has(ask: Ask) -> None:
    assert ask(library="old")["gpus"]["gpu1"]["compute_processes"] == [4711]


def test_a_maximum_of_nothing_is_no_measurement(ask: Ask) -> None:
    gpu = ask("no_lanes")["gpus"]["gpu1"]
    expected = "could not measure: gpu1: maximum PCIe link width: NVML says 0"
    assert gpu["pcie_link_width_max"] == expected


def test_an_address_that_is_none_is_refused(ask: Ask) -> None:
    gpu = ask("bad_address")["gpus"]["gpu1"]
    assert gpu["pci_address"] == "could not measure: gpu1: '../../etc' is not a PCI address"


def test_a_hung_call_is_given_up_and_nvml_is_not_called_again(ask: Ask) -> None:
    started = time.monotonic()
    said = ask("hang_power", bound_s=0.5)
    hung = "NVML did not answer within 0.5 s"
    assert said["status"] == "ok"
    assert said["gpus"]["gpu0"]["power_limit_w"] == 700.0
    assert said["gpus"]["gpu1"]["pci_address"] == "0001:2a:00.0"
    assert said["gpus"]["gpu1"]["power_limit_w"] == f"could not measure: gpu1: power limit: {hung}"
    assert said["gpus"]["gpu1"]["temperature_c"] == f"could not measure: gpu1: temperature: {hung}"
    assert said["status after"] == hung
    # One bound is waited for. Twenty calls follow: had each waited, it would be 10 s.
    assert time.monotonic() - started < 8


def test_a_hang_at_the_start_is_a_status(ask: Ask) -> None:
    said = ask("hang_init", bound_s=0.5)
    assert said["status"] == "NVML did not answer within 0.5 s"
    assert said["facts"] == []


def test_the_stand_in_says_nothing_of_its_own(ask: Ask) -> None:
    """Negative control: an unknown deviation is two healthy GPUs, a known one is not."""
    assert ask("no such deviation") == ask()
    assert ask("lost") != ask()


def test_without_the_library_the_status_is_nvmls_own_text(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    def no_library() -> None:
        raise missing

    monkeypatch.setattr(pynvml, "nvmlInit", no_library)
    nvml = Nvml()
    assert nvml.status() == "NVML Shared Library Not Found"
    with pytest.raises(CouldNotMeasure, match="NVML Shared Library Not Found"):
        nvml.gpus()


def test_without_pynvml_the_status_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert Nvml().status().startswith("pynvml cannot be imported")


@pytest.mark.parametrize(
    ("bus_id", "address"),
    [
        ("00000000:18:00.0", "0000:18:00.0"),
        ("0001:AF:1F.7", "0001:af:1f.7"),
        ("00010000:01:00.0", "10000:01:00.0"),  # sysfs prints wide domains as they are
    ],
)
def test_sysfs_address(bus_id: str, address: str) -> None:
    assert sysfs_address(bus_id) == address


@pytest.mark.parametrize("bus_id", ["", "0000:18:00", "0000:18:00.0\n", "0000:18:00.9"])
def test_what_is_no_pci_address_is_refused(bus_id: str) -> None:
    with pytest.raises(CouldNotMeasure, match="is not a PCI address"):
        sysfs_address(bus_id)
