"""NCCL on a real GPU; one card is enough. Nothing here says anything about a link's speed."""

from __future__ import annotations

import sys

import pytest

from hwcheck.contract.collective_spec import EVERY_NODE_LEGS, MIB, CollectiveSpec, LegPlan
from hwcheck.contract.wire import COLLECTIVES, DTYPES, Leg, Request
from hwcheck.node.together import launch
from tests.gpu.ranks import ROOT, two_ranks
from tests.node.collective import faulty

pytestmark = pytest.mark.gpu


def drive(spec: CollectiveSpec) -> dict[str, Leg]:
    legs = launch.drive(spec, sys.executable, ROOT, lambda text: None)
    return {leg.leg if len(spec.legs) > 1 else leg.collective: leg for leg in legs}


def test_one_rank() -> None:
    request = Request("t", ("all_reduce",), budget_s=45.0)
    found = list(launch.run_legs(request, ROOT, 1, 0, lambda text: None, EVERY_NODE_LEGS))
    assert [(leg.leg, leg.state, leg.reason) for leg in found] == [
        (plan.name, "done", "") for plan in EVERY_NODE_LEGS
    ]
    for leg in found:
        assert (leg.backend, leg.ranks, leg.exercise) == ("nccl", 1, False)
        assert leg.library.startswith("NCCL 2.")
        assert "busbw is 0 by arithmetic" in leg.notes[0]
        assert all(size.wrong == 0 and size.busbw_gbps == 0 for size in leg.sizes)
        assert leg.sizes[-1].size_bytes >= 64 * MIB


def test_two_ranks_on_one_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    leg = drive(two_ranks(EVERY_NODE_LEGS[2]))["all_reduce"]
    assert (leg.state, leg.reason) == ("done", "")
    assert [size.size_bytes for size in leg.sizes] == [MIB, 2 * MIB, 4 * MIB]
    for size in leg.sizes:
        assert size.wrong == 0
        assert size.busbw_gbps == pytest.approx(size.algbw_gbps)
        assert size.busbw_gbps > 0
    log = capsys.readouterr().err
    assert "-- log of leg net" in log
    assert "via NET/Socket" in log
    assert leg.transport["NET/Socket"] > 0
    assert "AllReduce" in str(leg.transport["algorithms"])


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_collective_is_verified_on_the_gpu(dtype: str) -> None:
    found = drive(two_ranks(EVERY_NODE_LEGS[2], collectives=COLLECTIVES, dtype=dtype, turns=2))
    assert list(found) == list(COLLECTIVES)
    for leg in found.values():
        assert (leg.state, leg.reason) == ("done", "")
        assert all(size.all_wrong == 0 for size in leg.sizes)
        assert leg.sizes[-1].passes == 2


def test_a_leg_that_went_another_way_is_not_engaged() -> None:
    leg = drive(two_ranks(LegPlan("p2p_sys", {"NCCL_P2P_LEVEL": "SYS"})))["all_reduce"]
    assert leg.state == "not_engaged"
    assert leg.reason == "NCCL used NET, not P2P"


def test_a_hang_is_killed_and_the_gpu_is_usable_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(launch, "BOOT", faulty.boot())
    found = drive(two_ranks(LegPlan("hang", {"FAULT": "hang"}), LegPlan("after", {}), grace_s=15.0))
    assert found["hang"].state == "hang"
    assert [size.size_bytes for size in found["hang"].sizes] == [MIB]
    assert "in hang" in found["hang"].log_tail.split("-- stack of rank 1")[1]
    assert (found["after"].state, found["after"].reason) == ("done", "")


def test_corruption_on_the_gpu_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "BOOT", faulty.boot())
    leg = drive(two_ranks(LegPlan("corrupt", {"FAULT": "corrupt"})))["all_reduce"]
    assert leg.state == "done"
    assert [size.wrong for size in leg.sizes] == [0, 2, 2]


def test_a_rank_that_dies_fails_the_leg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "BOOT", faulty.boot())
    leg = drive(two_ranks(LegPlan("leave", {"FAULT": "leave"})))["all_reduce"]
    assert (leg.state, leg.reason) == ("failed", "rank 1 exited with code 7")
