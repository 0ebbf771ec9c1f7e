"""The negative controls on a real GPU; one card is enough."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from hwcheck.contract.wire import Leg
from hwcheck.node.together import gates, launch
from tests.gpu.ranks import ROOT, two_ranks

pytestmark = pytest.mark.gpu


def test_wrong_data_and_a_hang_are_noticed_on_the_gpu() -> None:
    legs = {gates.gate_of(leg): leg for leg in gates.run(sys.executable, ROOT, 1, 0, print)}
    assert set(legs) == {gates.WRONG, gates.HANG}
    assert all(leg.backend == "nccl" for leg in legs.values())
    assert all(gates.verdict(leg)[0] for leg in legs.values())


def test_sockets_are_not_taken_for_peer_access() -> None:
    (found,) = launch.drive(two_ranks(gates.NO_WAY), sys.executable, ROOT, print)
    assert isinstance(found, Leg)
    assert gates.verdict(found) == (True, "NCCL used NET, not P2P")
    allowed = replace(gates.NO_WAY, name="net")
    (other,) = launch.drive(two_ranks(allowed), sys.executable, ROOT, print)
    assert isinstance(other, Leg)
    assert other.state == "done", "the same environment under its own name is what it says"
