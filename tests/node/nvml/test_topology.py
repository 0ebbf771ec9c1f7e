"""nvml_topology.py over a C library that answers as NVML does."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.node.nvml.topology import number_list
from tests.node.conftest import Ask


def answers(said: dict[str, Any], quantity: str) -> tuple[Any, Any]:
    first, second = said["gpus"].values()
    return first[quantity], second[quantity]


def test_the_way_over_pcie(ask: Ask) -> None:
    assert answers(ask(), "pcie_path") == ("PXB", "NODE")


def test_a_driver_that_knows_nothing_between_gpus(ask: Ask) -> None:
    said = ask("no_ways")
    assert answers(said, "pcie_path") == (None, None)
    refused = "could not measure: gpu0: P2P with gpu1: Not Supported"
    assert answers(said, "p2p_status")[0] == refused


def test_what_one_gpu_may_do_in_the_memory_of_the_other(ask: Ask) -> None:
    assert answers(ask(), "p2p_status") == (
        {"read": "OK", "write": "CNS", "nvlink": "GNS", "atomics": "TNS"},
        {"read": "DR", "write": "NS", "nvlink": "U", "atomics": "U"},
    )


def test_a_driver_that_knows_reading_and_writing_only(ask: Ask) -> None:
    first, _ = answers(ask(library="old"), "p2p_status")
    assert first == {"read": "OK", "write": "CNS", "nvlink": None, "atomics": None}


def test_a_peer_that_is_lost(ask: Ask) -> None:
    first, second = answers(ask("lost"), "pcie_path")
    assert first == "could not measure: gpu0: its peer gpu1: GPU is lost"
    assert second == "could not measure: gpu1: GPU is lost"


def test_where_nvlinks_lead(ask: Ask) -> None:
    # Links 0, 1 and 3 are up.
    remotes = ["0000:05:00.0", "0000:06:00.0", "0000:08:00.0"]
    assert answers(ask(), "nvlink_remotes") == (remotes, [])
    assert answers(ask(), "nvlink_version") == ("4.0", None)


def test_an_end_that_is_no_address_and_a_version_that_is_unknown(ask: Ask) -> None:
    said = ask("far_end")
    expected = "could not measure: gpu0: far end of NVLink 0: 'nowhere' is not a PCI address"
    assert answers(said, "nvlink_remotes")[0] == expected
    assert answers(said, "nvlink_version")[0] is None


def test_switches_that_a_guest_is_not_shown(ask: Ask) -> None:
    said = ask("hidden_switches")
    assert answers(said, "nvlink_to_switch")[0] is None
    assert answers(said, "nvlink_remotes")[0] == ["", "", ""]


def test_what_is_near(ask: Ask) -> None:
    said = ask()
    assert answers(said, "cpu_affinity") == ("0-31,64-130", "0,255")
    assert answers(said, "numa_affinity") == ("0,3-9", None)
    assert answers(said, "numa_id") == (2, None)


def test_a_driver_from_before_numa_affinity(ask: Ask) -> None:
    said = ask(library="old")
    assert answers(said, "numa_affinity") == (None, None)
    assert answers(said, "numa_id") == (None, None)


@pytest.mark.parametrize(
    ("numbers", "text"),
    [([], ""), ([7], "7"), ([0, 1, 2, 3], "0-3"), ([0, 2, 3, 63, 64, 66], "0,2-3,63-64,66")],
)
def test_numbers_as_linux_lists_them(numbers: list[int], text: str) -> None:
    assert number_list(numbers) == text
