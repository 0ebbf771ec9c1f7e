from __future__ import annotations

from typing import Any

import pytest

from hwcheck.contract.collective_spec import EVERY_NODE_LEGS
from hwcheck.contract.wire import LEG_NAMES as NAMES
from hwcheck.node.collective.choose_legs import choose
from hwcheck.testing.fake_node import FakeNode

ADDRESSES = [f"0000:{0x18 + i:02x}:00.0" for i in range(4)]
NO_SETTINGS: dict[str, Any] = {"nccl_settings": []}
P2P_LEVEL = {"name": "NCCL_P2P_LEVEL", "value": "LOC", "origin": "/etc/profile.d/nccl.sh"}
OF_CONF = {"name": "NCCL_ALGO", "value": "Ring", "origin": "/etc/nccl.conf"}
DEBUG = {"name": "NCCL_DEBUG", "value": "WARN", "origin": "process environment"}


def gpu(index: int, remotes: list[int], to_switch: bool = False) -> dict[str, Any]:
    return {
        "pci_address": ADDRESSES[index],
        "name": "GPU",
        "mig_mode": None,
        "nvlinks": [{"link": n, "active": True, "speed_gbps": 25.0} for n, _ in enumerate(remotes)],
        "nvlink_to_switch": to_switch,
        "nvlink_remotes": [ADDRESSES[peer] for peer in remotes],
    }


SWITCHED = [gpu(i, [0, 0], to_switch=True) for i in range(4)]
BRIDGED = [gpu(i, [i ^ 1]) for i in range(4)]
PCIE = [gpu(i, []) for i in range(4)]


def names(gpus: list[dict[str, Any]], wanted: tuple[str, ...] = (), **says: Any) -> list[str]:
    node = FakeNode({"gpus": gpus, **NO_SETTINGS, **says})
    return [plan.name for plan in choose(node, len(gpus), wanted)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("gpus", "more"),
    [
        (SWITCHED, []),
        (BRIDGED, ["nvlink_only", "p2p_sys"]),
        (PCIE, ["p2p_sys"]),
        (BRIDGED[:2], []),
        ([], []),
    ],
)
def test_legs_that_can_differ_by_their_links(gpus: list[dict[str, Any]], more: list[str]) -> None:
    assert names(gpus) == [*(plan.name for plan in EVERY_NODE_LEGS), *more]


def test_one_gpu_has_the_default_and_what_its_node_sets() -> None:
    assert names(PCIE[:1]) == ["default"]
    assert names(PCIE[:1], nccl_settings=[P2P_LEVEL]) == ["default", "site"]
    node = FakeNode({"gpus": PCIE[:1], **NO_SETTINGS})
    (asked,) = choose(node, 1, ("p2p_off",))  # type: ignore[arg-type]
    assert asked.absent == "there are no two GPUs to tell it by"


@pytest.mark.parametrize(
    ("settings", "env"),
    [
        ([P2P_LEVEL], {"NCCL_P2P_LEVEL": "LOC"}),
        ([P2P_LEVEL, DEBUG, OF_CONF], {"NCCL_P2P_LEVEL": "LOC"}),
        ([OF_CONF], {}),
    ],
)
def test_the_nodes_own_environment(settings: list[dict[str, str]], env: dict[str, str]) -> None:
    node = FakeNode({"gpus": SWITCHED, "nccl_settings": settings})
    *_, last = choose(node, 4, ())  # type: ignore[arg-type]
    assert (last.name, dict(last.env)) == ("site", env)


def test_what_only_sets_the_log_is_no_environment_of_its_own() -> None:
    assert "site" not in names(SWITCHED, nccl_settings=[DEBUG])


def test_a_leg_that_is_asked_for_and_cannot_differ_says_why() -> None:
    node = FakeNode({"gpus": PCIE, **NO_SETTINGS})
    found = {plan.name: plan.absent for plan in choose(node, 4, NAMES)}  # type: ignore[arg-type]
    assert list(found) == list(NAMES)
    assert found["nvlink_only"] == "no pair of GPUs has NVLinks"
    assert found["site"] == "nothing sets an NCCL variable on this node"
    assert (found["default"], found["p2p_sys"]) == ("", "")


def test_only_what_is_asked_for() -> None:
    assert names(BRIDGED, ("default", "nvlink_only")) == ["default", "nvlink_only"]


def test_links_that_cannot_be_read_leave_the_usual_legs() -> None:
    broken = [{**gpu(i, []), "nvlinks": {"error": "Unknown Error"}} for i in range(2)]
    assert names(broken)[:3] == [plan.name for plan in EVERY_NODE_LEGS]
