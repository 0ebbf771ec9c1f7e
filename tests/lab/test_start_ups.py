"""Eight simulated GPUs that start as slowly as real ones: the payload runs as on a node.

A start takes a tenth of its time here, and has a tenth of its limits; ``python -m
tests.lab.start_ups`` takes its true time.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from hwcheck.contract.collective_spec import MIB
from hwcheck.contract.wire import Timing
from tests.lab.start_ups import CHECKS, START_UPS, Visit, visit

pytestmark = [pytest.mark.urgent, pytest.mark.timeout(300)]

SCALE = 0.1


def test_a_healthy_node_is_measured_however_slowly_it_starts(tmp_path: Path) -> None:
    start = START_UPS["cold DGX B200"]
    # Half of the quick profile's budget for one of its two collectives: its share of 4.5 s is less
    # than this start.
    came = visit(start, tmp_path, SCALE, CHECKS[:1], Timing(max_bytes=256 * MIB), budget_s=22.5)
    assert [leg.state for leg in came.legs] == ["done"] * 3
    least_s = (start["context_s"] + start["communicator_s"] + start["connect_s"]) * SCALE
    for leg in came.legs:
        assert leg.start_s is not None
        assert leg.start_s >= least_s
        assert leg.sizes[-1].size_bytes >= 256 * MIB, leg.notes
    assert came.complaints() == {}


def faulty(
    folder: Path, scale: float = SCALE, legs: tuple[str, ...] = (), **faults: Mapping[str, Any]
) -> Visit:
    timing = Timing(legs, max_bytes=8 * MIB)
    start = {**START_UPS["usual"], "faults": faults}
    return visit(start, folder, scale, CHECKS[:1], timing, budget_s=12.0)


def test_what_does_not_start_is_seen_beside_what_does(tmp_path: Path) -> None:
    came = faulty(
        tmp_path,
        default={"kind": "stop at start", "rank": 3},
        p2p_off={"kind": "stop at connect", "rank": 5},
        net={"kind": "plugin"},
    )
    default, p2p_off, net = came.legs
    assert (default.state, p2p_off.state, net.state) == ("not_started", "hang", "done")
    assert default.start_s == pytest.approx(120 * SCALE, rel=0.2)
    assert p2p_off.start_s is not None
    assert p2p_off.start_s < 60 * SCALE
    assert came.outcomes("leg_state") == {
        "leg default": "fail",
        "leg p2p_off": "fail",
        "leg net": "pass",
    }
    (hangs,) = [f for f in came.findings if f.subject == "leg default" and f.outcome == "fail"]
    assert "it hangs at start: no communicator after" in hangs.reason.text
    assert "Init START" in hangs.reason.text
    assert net.env["NCCL_NET"] == "Socket"
    assert "NET/Plugin : no usable device" in net.first_failure
    assert came.outcomes("network_transport") == {"leg net": "warn"}


@pytest.mark.wide
def test_where_nothing_starts_nothing_is_known(tmp_path: Path) -> None:
    stops = {"kind": "stop at start", "rank": 0}
    came = faulty(tmp_path, 0.05, ("default", "p2p_off"), default=stops, p2p_off=stops)
    assert set(came.states().values()) == {"not_started"}
    assert came.outcomes("leg_state") == {}
    assert came.complaints() == {
        "leg default": "inconclusive",
        "leg p2p_off": "inconclusive",
        "leg net": "inconclusive",  # it was not asked for here
    }


@pytest.mark.wide
def test_what_breaks_later_has_its_own_state(tmp_path: Path) -> None:
    came = faulty(
        tmp_path,
        default={"kind": "stop in the middle", "rank": 2},
        p2p_off={"kind": "die", "rank": 7},
        net={"kind": "drag", "rank": 1},
    )
    states = {leg.leg: (leg.state, len(leg.sizes) > 0) for leg in came.legs}
    assert states == {"default": ("hang", True), "p2p_off": ("failed", True), "net": ("done", True)}
    assert "rank 7 was killed by SIGKILL" in came.legs[1].reason.text
