from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.interconnect import Interconnect, link_gbps, nvlink_gbps, nvlinks
from hwcheck.testing.fake_node import FakeNode

CASES = Path(__file__).parents[1] / "cases" / "topology"


def interconnect(case: str, **changes: Any) -> Interconnect:
    says = json.loads((CASES / f"{case}.json").read_text("utf-8"))["node"]
    return Interconnect(FakeNode({**says, **changes}))


def ways(found: Interconnect) -> dict[str, tuple[str, float | None]]:
    return {
        f"{one.number}-{other.number}": (found.path(one, other), nvlink_gbps(one, other))
        for one, other in found.pairs()
    }


def test_a_mesh() -> None:
    found = ways(interconnect("cube_mesh"))
    assert len(found) == 28
    assert found["0-1"] == ("NV1", 25.78125)
    assert found["0-3"] == ("NV2", 51.5625)
    assert found["0-5"] == ("SYS", 0)


def test_the_fabric_speaks_where_the_driver_does_not_say_what_links_lead_to() -> None:
    assert set(ways(interconnect("grace_blackwell")).values()) == {("NV18", 18 * 53.125)}


def test_switches_that_a_guest_is_not_shown_are_taken_for_switches() -> None:
    hidden = interconnect("switches_not_shown_to_a_guest")
    assert ways(hidden) == {"0-1": ("NV2", 50.0)}


def test_a_far_end_without_an_address_is_no_switch_where_nvml_calls_it_a_gpu() -> None:
    found = interconnect("nobody_says_where_nvlinks_lead")
    assert not found.members
    gpu = {"nvlink_to_switch": False, "nvlink_remotes": [""] * 4}
    says = json.loads((CASES / "nobody_says_where_nvlinks_lead.json").read_text("utf-8"))["node"]
    found = Interconnect(FakeNode({**says, "gpu": {**says["gpu"], **gpu}}))
    assert found.reasons[0].text == "gpu0: NVML does not say where its NVLinks lead"


def test_behind_switches_the_gpu_with_fewer_links_counts() -> None:
    found = ways(interconnect("a_link_of_eighteen_is_down"))
    assert found == {
        "0-1": ("NV17", 17 * 26.5625),
        "0-2": ("NV18", 18 * 26.5625),
        "1-2": ("NV17", 17 * 26.5625),
    }


def test_a_link_counts_when_both_ends_have_it_up() -> None:
    found = interconnect("a_link_up_at_one_end_only")
    first, second = found.members[:2]
    assert nvlinks(first, second) == nvlinks(second, first) == 3


def test_a_speed_that_one_link_does_not_have_is_no_sum() -> None:
    found = interconnect("a_version_whose_speed_is_unknown")
    assert ways(found) == {"0-1": ("NV2", None)}


def test_a_gpu_that_does_not_answer_costs_only_itself() -> None:
    found = interconnect("a_gpu_is_lost")
    assert [member.subject for member in found.members] == ["gpu0", "gpu1"]
    assert [reason.text for reason in found.reasons] == ["gpu2: GPU is lost"]


def test_the_kernel_is_asked_where_nvml_has_no_way() -> None:
    assert ways(interconnect("the_kernel_knows_the_way"))["0-1"][0] == "PHB"
    hidden = interconnect("the_kernel_knows_the_way", pci_gpus=["0000:18:00.0"])
    with pytest.raises(CouldNotMeasure, match="gpu1: the kernel shows no GPU at 0000:19:00"):
        ways(hidden)


def test_no_gpu() -> None:
    with pytest.raises(CouldNotMeasure, match="NVML sees no GPU"):
        interconnect("one_gpu", gpus=[])


@pytest.mark.parametrize(
    ("reported", "exact"),
    [
        (14.062, 14.0625),  # GA102
        (25.781, 25.78125),  # Volta, Turing
        (25.0, 25.0),  # A100
        (26.562, 26.5625),  # Hopper
        (53.125, 53.125),  # Blackwell
        (12.5, 12.5),  # trained at less than its version's speed
    ],
)
def test_what_nvml_cut_off_is_put_back(reported: float, exact: float) -> None:
    assert link_gbps(reported, "4.0") == exact


@pytest.mark.parametrize(
    ("version", "speed"), [("1.0", 20.0), ("3.1", 14.0625), ("9.0", None), (None, None)]
)
def test_a_driver_that_does_not_tell(version: str | None, speed: float | None) -> None:
    assert link_gbps(None, version) == speed


def test_four_links_of_ga102() -> None:
    speed = link_gbps(14.062, None)
    assert speed is not None
    assert 4 * speed == 56.25
