"""nvml_links.py over a C library that answers as NVML does."""

from __future__ import annotations

from typing import Any

import pytest

from tests.node.conftest import Ask


def test_a_maximum_of_nothing_is_no_measurement(ask: Ask) -> None:
    gpu = ask("no_lanes")["gpus"]["gpu1"]
    expected = "could not measure: gpu1: maximum PCIe link width: NVML says 0"
    assert gpu["pcie_link_width_max"] == expected


def test_replays(ask: Ask) -> None:
    first, second = ask()["gpus"].values()
    assert (first["pcie_replays"], second["pcie_replays"]) == (67, None)


@pytest.mark.parametrize(
    ("library", "speeds"),
    [("new", [26.562, 26.563, None, 26.565]), ("old", [25.781, 25.781, None, 25.781])],
)
def test_nvlinks_and_their_speed(ask: Ask, library: str, speeds: list[float | None]) -> None:
    first, second = ask(library=library)["gpus"].values()
    assert first["nvlinks"] == [
        {"link": link, "active": link != 2, "speed_gbps": speed}
        for link, speed in enumerate(speeds)
    ]
    assert (first["nvlink_to_switch"], second["nvlink_to_switch"]) == (True, None)
    assert (second["nvlinks"], second["nvlink_errors"]) == ([], [])


def errors(*links: tuple[int, dict[str, int]]) -> list[dict[str, Any]]:
    return [{"link": link, "counters": counters} for link, counters in links]


def test_the_error_counters_of_hopper(ask: Ask) -> None:
    zero = {"replay": 0, "recovery": 0, "crc": 0}
    seven = {"replay": 7, "recovery": 7, "crc": 7}
    found = ask()["gpus"]["gpu0"]["nvlink_errors"]
    assert found == errors((0, zero), (1, zero), (3, seven))


def test_the_error_counters_of_blackwell(ask: Ask) -> None:
    names = ("recovery_failed", "malformed_packet", "buffer_overrun", "symbol", "effective")
    zero = dict.fromkeys(names, 0)
    found = ask("blackwell")["gpus"]["gpu0"]["nvlink_errors"]
    assert found == errors((0, zero), (1, zero), (3, {**zero, "malformed_packet": 7}))


def test_an_older_driver_has_counters_of_its_own(ask: Ask) -> None:
    found = ask(library="old")["gpus"]["gpu0"]["nvlink_errors"]
    assert found == errors(
        (0, {"replay": 0, "recovery": 1, "crc": 5}),
        (1, {"replay": 10, "recovery": 11, "crc": 25}),
        (3, {"replay": 30, "recovery": 31, "crc": 65}),
    )


def test_the_fabric_decoded(ask: Ask) -> None:
    first, second = ask()["gpus"].values()
    assert first["fabric"] == {
        "state": "completed",
        "status": "Success",
        "degraded": "bandwidth",
        "unhealthy": "route, too few NVLinks",
        "cluster_uuid": "4d0c2b1a77884e3f9a550000000000c1",
        "clique_id": 2,
    }
    assert second["fabric"] is None


def test_a_driver_that_knows_only_the_older_structure(ask: Ask) -> None:
    assert ask("fabric_v2")["gpus"]["gpu0"]["fabric"] == {
        "state": "completed",
        "status": "Insufficient Resources",
        "degraded": "",
        "unhealthy": "",
        "cluster_uuid": "4d0c2b1a77884e3f9a550000000000c1",
        "clique_id": 2,
    }


@pytest.mark.parametrize("deviation", ["no_fabric", "supported_first"])
def test_a_gpu_without_a_fabric_beside_a_structure_that_the_driver_does_not_know(
    ask: Ask, deviation: str
) -> None:
    """A driver of 570 refuses version 3, and then says of version 2 that it is not supported."""
    assert ask(deviation)["gpus"]["gpu0"]["fabric"] is None


def test_an_error_that_is_no_matter_of_versions_is_no_answer(ask: Ask) -> None:
    """Negative control: the oldest function says NOT_SUPPORTED here too."""
    fabric = ask("fabric_unknown_error")["gpus"]["gpu0"]["fabric"]
    assert fabric == "could not measure: gpu0: fabric: Unknown Error"


def test_a_link_that_is_not_supported_hides_none_after_it(ask: Ask) -> None:
    gpu = ask("link_3_unsupported")["gpus"]["gpu0"]
    assert [link["link"] for link in gpu["nvlinks"]] == [0, 1, 2, 4, 5, 6, 7]
    assert [each["link"] for each in gpu["nvlink_errors"]] == [0, 1, 4, 5, 7]
    assert len(gpu["nvlink_remotes"]) == 5


def test_a_driver_from_before_fabrics(ask: Ask) -> None:
    assert ask(library="old")["gpus"]["gpu0"]["fabric"] is None


def test_bit_error_rates_are_put_together(ask: Ask) -> None:
    rates = ask("rates")["gpus"]["gpu0"]["nvlink_rates"]
    assert rates == [{"link": 0, "symbol": 15e-255, "effective": 2e-6}]
    assert ask()["gpus"]["gpu0"]["nvlink_rates"] == []
