"""nvml_gpu.py over a C library that answers as NVML does."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.nvml.gpu import sysfs_address
from tests.node.conftest import Ask


def test_two_healthy_gpus(ask: Ask) -> None:
    said = ask()
    expected: dict[str, dict[str, Any]] = {
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
    for subject, quantities in expected.items():
        read = {quantity: said["gpus"][subject][quantity] for quantity in quantities}
        assert read == quantities


def test_the_action_that_a_driver_wants_and_one_that_tells_none(ask: Ask) -> None:
    gpus = ask()["gpus"]
    assert (gpus["gpu0"]["recovery_action"], gpus["gpu1"]["recovery_action"]) == (2, None)
    assert ask("lost")["gpus"]["gpu1"]["recovery_action"].startswith("could not measure: gpu1")


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
        "mig": False,
    }
    assert set(first) - set(second) == {"serial", "nvlink_links", "mig"}


def test_a_board_without_nvlink_says_so_and_a_guest_may_not_be_shown_its_links(ask: Ask) -> None:
    bare, guest = ask("no_nvlink")["facts"]
    assert bare["nvlink_links"] == 0
    assert "nvlink_links" not in guest
    assert "nvlink_links" not in ask()["facts"][1], "it does not say what kind of machine it is in"


def test_a_quantity_that_is_not_supported_names_gpu_and_quantity(ask: Ask) -> None:
    gpus = ask("no_power")["gpus"]
    assert gpus["gpu1"]["power_limit_w"] == "could not measure: gpu1: power limit: Not Supported"
    assert gpus["gpu0"]["power_limit_w"] == 700.0
    assert gpus["gpu1"]["temperature_c"] == 31


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


def test_other_limits_are_counted_from_where_the_margin_is(ask: Ask) -> None:
    first, second = ask("limits")["gpus"].values()
    names = ("temperature_slowdown_c", "temperature_shutdown_c", "temperature_max_operating_c")
    assert [second[name] for name in names] == [31 + 51 + 2, 31 + 51 + 7, 31 + 51]
    assert [first[name] for name in names] == [90, 95, 30 + 50], "its own thresholds come first"


def test_without_limits_nothing_is_told_of_other_thresholds(ask: Ask) -> None:
    """Negative control of the test above."""
    assert ask("margin")["gpus"]["gpu1"]["temperature_max_operating_c"] is None


def test_a_deprecated_function_has_a_successor(ask: Ask) -> None:
    first, second = ask("deprecated")["gpus"].values()
    assert (first["temperature_c"], second["temperature_c"]) == (30, 31)
    assert first["performance_state"] == 0


def test_without_a_successor_the_gpu_does_not_have_it(ask: Ask) -> None:
    """Negative control of the test above."""
    gpu = ask("deprecated_all")["gpus"]["gpu0"]
    reason = "The requested functionality has been deprecated"
    assert gpu["temperature_c"] == f"could not measure: gpu0: temperature: {reason}"
    assert gpu["loss"] == ""


def test_an_address_that_is_none_is_refused(ask: Ask) -> None:
    gpu = ask("bad_address")["gpus"]["gpu1"]
    assert gpu["pci_address"] == "could not measure: gpu1: '../../etc' is not a PCI address"


def test_identity_and_firmware(ask: Ask) -> None:
    first, second = ask()["gpus"].values()
    assert first["name"] == "NVIDIA Test GPU"
    assert first["board_id"] == "0x233510DE 0x18BE10DE"
    assert (first["uuid"], second["uuid"]) == ("GPU-aaaa", "GPU-bbbb")
    assert (first["serial"], second["serial"]) == ("1650522000001", None)
    assert (first["board_part_number"], second["board_part_number"]) == ("692-2G520-0200-000", None)
    assert (first["vbios"], first["inforom_image"]) == ("96.00.99.00.01", "G520.0200.00.05")


def test_where_in_its_rack_it_is(ask: Ask) -> None:
    first, second = ask()["gpus"].values()
    of_rack = {"chassis_serial": "1821624190123", "slot": 200, "tray": 14, "host": 1}
    assert first["rack_place"] == {**of_rack, "module": 2}
    assert second["rack_place"] is None, "a driver or board without it"
    assert ask("no_rack")["gpus"]["gpu1"]["rack_place"] is None, "numbers without a serial"


@pytest.mark.parametrize(("deviation", "valid"), [("", True), ("corrupted", False)])
def test_a_corrupted_inforom_is_an_answer(ask: Ask, deviation: str, valid: bool) -> None:
    assert ask(deviation)["gpus"]["gpu1"]["inforom_valid"] is valid


def test_temperatures_and_fans(ask: Ask) -> None:
    first, second = ask()["gpus"].values()
    assert (first["temperature_shutdown_c"], second["temperature_shutdown_c"]) == (95, 95)
    assert (first["memory_temperature_c"], second["memory_temperature_c"]) == (44, None)
    assert (first["memory_temperature_max_c"], second["memory_temperature_max_c"]) == (95, None)
    assert (first["fan_speeds_percent"], second["fan_speeds_percent"]) == ([], [30, 31])


@pytest.mark.parametrize(("library", "state"), [("new", 0), ("old", 8)])
def test_clocks_and_performance_states(ask: Ask, library: str, state: int) -> None:
    first, second = ask(library=library)["gpus"].values()
    assert first["clock_event_reasons"] == ["idle"]
    assert second["clock_event_reasons"] == ["hw_slowdown", "hw_power_brake", "bit_10"]
    assert (first["performance_state"], second["performance_state"]) == (state, None)


def test_application_clocks_that_the_driver_no_longer_tells(ask: Ask) -> None:
    first, second = ask()["gpus"].values()
    assert first["application_clocks"] == {
        "graphics_mhz": 1200,
        "memory_mhz": 1593,
        "graphics_default_mhz": 1980,
        "memory_default_mhz": 2619,
    }
    assert second["application_clocks"] is None


@pytest.mark.parametrize("library", ["new", "old"])
def test_processes_of_both_kinds(ask: Ask, library: str) -> None:
    first, second = ask(library=library)["gpus"].values()
    assert first["processes"] == []
    assert second["processes"] == [
        {"pid": 4711, "kind": "compute", "name": "python3.11[31m", "memory_bytes": 2 << 30},
        {"pid": 1200, "kind": "graphics", "name": "gnome-shell", "memory_bytes": 9 << 20},
        {"pid": 1300, "kind": "graphics", "name": "", "memory_bytes": None},
    ]


def test_what_is_refused_with_mig_on_says_so(ask: Ask) -> None:
    gpu = ask("mig")["gpus"]["gpu1"]
    refused = {name: text for name, text in gpu.items() if "while MIG is on" in str(text)}
    assert refused == {
        "utilization_percent": "could not measure: gpu1: utilization: Not Supported "
        "while MIG is on",
        "ecc_errors": "could not measure: gpu1: ECC errors: Not Supported while MIG is on",
        "row_remap": "could not measure: gpu1: remapped rows: Not Supported while MIG is on",
        "bar1_total_bytes": "could not measure: gpu1: BAR1: Insufficient Permissions "
        "while MIG is on",
        "processes": "could not measure: gpu1: graphics processes: Insufficient Permissions "
        "while MIG is on",
    }
    assert gpu["mig_mode"] == {"current": True, "pending": True}
    assert gpu["temperature_c"] == 31


def test_mig_off_and_mig_not_there(ask: Ask) -> None:
    first, second = ask()["gpus"].values()
    assert (first["mig_mode"], second["mig_mode"]) == ({"current": False, "pending": False}, None)


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


def test_the_compute_mode_is_named(ask: Ask) -> None:
    first, second = ask()["gpus"].values()
    assert (first["compute_mode"], second["compute_mode"]) == ("exclusive_process", None)


def test_power_and_virtualization_are_read_where_they_are(ask: Ask) -> None:
    first, second = ask()["gpus"].values()
    assert (first["power_w"], first["virtualization_mode"]) == (71.5, "passthrough")
    assert (second["power_w"], second["virtualization_mode"]) == (None, None)
