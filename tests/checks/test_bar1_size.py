"""bar1_size of boards that are bridged two by two, and of boards that reach all others."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.testing.cases import check_case_problem
from tests.checks.test_cases import REGISTRY

ADDRESSES = ["0000:25:00.0", "0000:27:00.0", "0000:4f:00.0", "0000:52:00.0"]


def gpu(to_switch: bool | None, remotes: list[int]) -> dict[str, Any]:
    return {
        "mig_mode": None,
        "bar1_total_bytes": 256 << 20,
        "memory_total_bytes": 45 << 30,
        "nvlinks": [{"link": link, "active": True} for link in range(len(remotes))],
        "nvlink_to_switch": to_switch,
        "nvlink_remotes": [ADDRESSES[peer] for peer in remotes],
    }


def case(gpus: list[dict[str, Any]], state: str, outcome: str) -> dict[str, Any]:
    subjects = [f"bar1_total_bytes gpu{n}" for n in range(len(gpus))] if outcome else []
    return {
        "doc": "GPUs joined by a bridge.",
        "node": {"pci_gpus": ADDRESSES[: len(gpus)], "gpus": gpus},
        "expect_inventory": {},
        "result": {"state": state},
        "outcomes": dict.fromkeys(subjects, outcome),
    }


def test_bridged_pairs_reach_the_other_pairs_through_the_window() -> None:
    pairs = [gpu(False, [peer] * 4) for peer in (1, 0, 3, 2)]
    assert (
        check_case_problem(REGISTRY["bar1_size"], case(pairs, "done", "warn"), shipped().models)
        == ""
    )


@pytest.mark.parametrize(
    "gpus",
    [
        [gpu(False, [peer] * 4) for peer in (1, 0)],
        [gpu(False, [peer for peer in range(4) if peer != own]) for own in range(4)],
        [{**gpu(True, [0, 0]), "nvlink_remotes": {"error": "a switch"}}] * 4,
        [{**gpu(None, [0, 0]), "nvlink_remotes": {"error": "an old driver"}}] * 4,
    ],
    ids=["one pair", "a mesh of four", "switches", "far ends unknown"],
)
def test_who_reaches_all_others_needs_no_window(gpus: list[dict[str, Any]]) -> None:
    assert (
        check_case_problem(
            REGISTRY["bar1_size"], case(gpus, "not_applicable", ""), shipped().models
        )
        == ""
    )


SWITCHED = [{**gpu(True, [0, 0]), "nvlink_remotes": {"error": "a switch"}}] * 4
CARD = {"mlx5_0": "0000:31:00.0"}


def beside_a_card(gpus: list[dict[str, Any]], state: str, outcome: str, **host: Any) -> str:
    of = case(gpus, state, outcome)
    of["node"] |= {"rdma_devices": CARD, **host}
    return check_case_problem(REGISTRY["bar1_size"], of, shipped().models)


def test_a_network_card_needs_the_window_of_gpus_behind_switches() -> None:
    assert beside_a_card(SWITCHED, "done", "warn") == ""
    large = [{**one, "bar1_total_bytes": 64 << 30} for one in SWITCHED]
    assert beside_a_card(large, "done", "pass") == ""


def test_a_card_beside_a_vgpu_or_nvlink_c2c_does_not() -> None:
    guest = [{**one, "virtualization_mode": "vgpu"} for one in SWITCHED]
    assert beside_a_card(guest, "not_applicable", "") == ""
    coherent = [{**one, "numa_id": 4} for one in SWITCHED]
    assert beside_a_card(coherent, "not_applicable", "", cpu_vendor="ARM") == ""
