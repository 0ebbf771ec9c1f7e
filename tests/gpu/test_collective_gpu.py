"""NCCL on a real GPU; one card is enough. Nothing here says anything about a link's speed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hwcheck.node.collective import launch
from hwcheck.node.collective.spec import LEGS, MIB, LegPlan, Spec
from hwcheck.wire import Leg, Request
from tests.node.collective import faulty

torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU that torch can use"),
]

ROOT = str(Path(launch.__file__).parents[3])


def two_ranks(*legs: LegPlan, **changes: float) -> Spec:
    """Two ranks on one card, over sockets: each all_reduce takes milliseconds at any size."""
    orders: dict[str, float] = {"budget_s": 90.0, "grace_s": 60.0, **changes}
    return Spec(
        collective="all_reduce",
        ranks=2,
        gpus=1,
        one_gpu=True,
        memory_available_bytes=0,
        legs=legs,
        max_bytes=4 * MIB,
        **orders,  # type: ignore[arg-type]
    )


def drive(spec: Spec) -> dict[str, Leg]:
    legs = launch.drive(spec, sys.executable, ROOT, lambda text: None)
    return {leg.leg: leg for leg in legs}


def test_one_rank() -> None:
    request = Request("t", ("all_reduce",), budget_s=45.0)
    found = list(launch.run_legs(request, ROOT, "all_reduce", 1, 0, lambda text: None))
    assert [(leg.leg, leg.state, leg.reason) for leg in found] == [
        (plan.name, "done", "") for plan in LEGS
    ]
    for leg in found:
        assert (leg.backend, leg.ranks, leg.exercise) == ("nccl", 1, False)
        assert leg.library.startswith("NCCL 2.")
        assert "busbw is 0 by arithmetic" in leg.notes[0]
        assert all(size.wrong == 0 and size.busbw_gbps == 0 for size in leg.sizes)
        assert leg.sizes[-1].size_bytes >= 64 * MIB


def test_two_ranks_on_one_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    leg = drive(two_ranks(LegPlan("net", {"NCCL_SHM_DISABLE": "1"})))["net"]
    assert (leg.state, leg.reason) == ("done", "")
    assert [size.size_bytes for size in leg.sizes] == [MIB, 2 * MIB, 4 * MIB]
    for size in leg.sizes:
        assert size.wrong == 0
        assert size.busbw_gbps == pytest.approx(size.algbw_gbps)
        assert size.busbw_gbps > 0
    log = capsys.readouterr().err
    assert "-- log of leg net" in log
    assert "via NET/Socket" in log


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
    leg = drive(two_ranks(LegPlan("corrupt", {"FAULT": "corrupt"})))["corrupt"]
    assert leg.state == "done"
    assert [size.wrong for size in leg.sizes] == [0, 2, 2]


def test_a_rank_that_dies_fails_the_leg(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "BOOT", faulty.boot())
    leg = drive(two_ranks(LegPlan("leave", {"FAULT": "leave"})))["leave"]
    assert (leg.state, leg.reason) == ("failed", "rank 1 exited with code 7")
