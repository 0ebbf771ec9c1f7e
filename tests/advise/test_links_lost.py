"""Which slow legs are explained by NVLinks that are down: those that are left are reckoned with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.advise.nodes import diagnosed

GPUS = [f"gpu{gpu}" for gpu in range(8)]
NVLINK: Mapping[str, object] = {"P2P/CUMEM": 16, "nvls": True}
AROUND: Mapping[str, object] = {"SHM": 2, "P2P/CUMEM": 14}


def node(
    up: int, gbps: float, transport: Mapping[str, object] = NVLINK, **samples: Mapping[str, object]
) -> dict[str, Any]:
    """Return a node with so many of 18 links of one GPU up, and the busbw of its all_reduce."""
    active = dict.fromkeys(GPUS, 18) | {"gpu0": up}
    links = {"nvlink_links_active": active, "nvlink_links_of_peers": dict.fromkeys(GPUS, 18)}
    leg = {"leg": "default", "gbps": gbps, "transport": dict(transport)}
    samples = {"nvlink_state": links, **samples}
    return {"path": f"NV{up}", "gpus": len(GPUS), "legs": [leg], "samples": samples}


def switch_lost(gbps: float, transport: Mapping[str, object] = NVLINK) -> dict[str, Any]:
    """Return a node all of whose GPUs lost the five links to one switch."""
    links = {
        "switch_links_active": dict.fromkeys(GPUS, 13),
        "switch_links": dict.fromkeys(GPUS, 18),
    }
    return node(13, gbps, transport, nvlink_state=links)


def failing(gbps: float, transport: Mapping[str, object] = NVLINK) -> dict[str, Any]:
    """Return a node with a link that could not be trained again."""
    errors = {"nvlink_recovery_failed_errors": {"gpu0": 2}}
    return node(17, gbps, transport, nvlink_errors=errors)


def explained(cause: str, case: Mapping[str, Any]) -> tuple[bool, str]:
    """Return whether the cause explains the node's all_reduce, and what was observed of it."""
    causes = diagnosed(("n1", case)).diagnoses
    (one,) = (each for each in causes if each.cause == cause and "n1" in each.hosts)
    return "all_reduce" in one.explains, " ".join(one.observed)


@pytest.mark.parametrize(
    ("cause", "case"),
    [
        ("nvlink_down", node(17, 228)),
        ("nvlink_down", node(9, 120)),
        ("nvswitch_lost", switch_lost(170)),
        ("nvlink_failing", failing(228)),
    ],
)
def test_half_of_what_the_links_left_allow_has_another_cause(
    cause: str, case: Mapping[str, Any]
) -> None:
    assert not explained(cause, case)[0]


@pytest.mark.parametrize(
    ("cause", "case"),
    [
        ("nvlink_down", node(17, 41, AROUND)),
        ("nvswitch_lost", switch_lost(41, AROUND)),
        ("nvlink_failing", failing(41, AROUND)),
    ],
)
def test_a_way_around_the_links_is_slower_than_they_and_is_told(
    cause: str, case: Mapping[str, Any]
) -> None:
    holds, observed = explained(cause, case)
    assert holds
    assert "leg default: NCCL went over SHM" in observed


def test_links_that_are_up_at_one_end_only_are_reckoned_with_and_carry_nothing() -> None:
    silent = node(18, 228, topology={"nvlinks_unanswered": {"gpu1": 9}})
    assert explained("nvlink_down", silent)[0]


def test_a_leg_below_those_of_like_hosts_is_slow_by_the_links_too() -> None:
    case = node(9, 240)
    assert not explained("nvlink_down", case)[0], "it is what nine links allow"
    assert explained("nvlink_down", {**case, "beside": node(18, 480)})[0]
