from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.contract.collective_spec import EVERY_NODE_LEGS, MIB, CollectiveSpec
from hwcheck.contract.reasons import NONE, NOT_MEASURED, OTHER_WAY, UNPROVEN, Reason
from hwcheck.contract.wire import Leg
from hwcheck.node import torch_process
from hwcheck.node.collective import nccl_info, proof
from hwcheck.node.together import gates, launch
from hwcheck.node.together.gates import HANG, NO_WAY, TRANSPORT, WRONG, verdict
from tests.factories import leg, wrong
from tests.node import forked_torch

BUDGET_S, GRACE_S, CONNECT_S = 4.0, 6.0, 5.0
ROOT = str(Path(launch.__file__).parents[3])
ENV = "NCCL INFO %s set by environment to 1"
TAKEN = "\n".join(ENV % name for name in NO_WAY.env)
OVER_SOCKETS = TAKEN + "\nh:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] [send] via NET/Socket/0"
BY_PEERS = TAKEN + "\nh:1:1 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"


def _as(gate: str, of: Leg, **changes: object) -> Leg:
    named = {"leg": TRANSPORT} if gate == TRANSPORT else {"collective": gate}
    return replace(of, **named, **changes)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def forked() -> Iterator[None]:
    """Start the launcher in a fork."""
    forked_torch.prepare()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_process, "start", forked_torch.start)
        yield


@pytest.fixture(scope="module")
def over_gloo(forked: None) -> dict[str, Leg]:
    """Both legs that can be broken without a GPU, for real, with a short patience."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gates, "BUDGET_S", BUDGET_S)
        patch.setattr(gates, "GRACE_S", GRACE_S)
        patch.setattr(gates, "CONNECT_S", CONNECT_S)
        found = list(gates.run(sys.executable, ROOT, 0, 1 << 30, lambda text: None))
    return {gates.gate_of(leg): leg for leg in found}


@pytest.mark.timeout(180)
def test_on_the_cpu_both_gates_fire(over_gloo: dict[str, Leg]) -> None:
    assert set(over_gloo) == {WRONG, HANG}
    assert verdict(over_gloo[WRONG]) == (True, "2 of 2 damaged elements were counted")
    fired, said = verdict(over_gloo[HANG])
    assert fired
    assert "before the first size was finished" in said
    assert over_gloo[HANG].duration_s < CONNECT_S + BUDGET_S + gates.KILL_S


@pytest.mark.timeout(180)
def test_a_collective_that_is_whole_fires_no_gate(forked: None) -> None:
    """What the gates are held against: the same orders, with nothing broken."""
    spec = replace(list(gates.orders(0, 1 << 30))[-1], collectives=("all_reduce",))
    (found,) = launch.drive(spec, sys.executable, ROOT, lambda text: None)
    assert isinstance(found, Leg)
    assert (found.state, found.reason.text) == ("done", "")
    assert verdict(_as(WRONG, found)) == (False, "0 of 2 damaged elements were counted")
    assert verdict(_as(HANG, found))[0] is False
    assert verdict(_as(TRANSPORT, found))[0] is False


@pytest.mark.parametrize(
    ("leg", "fired"),
    [
        (_as(WRONG, wrong(elements=2)), True),
        (_as(WRONG, wrong(elements=1)), False),
        (_as(WRONG, wrong(elements=3)), False),
        (_as(WRONG, leg()), False),
        (_as(HANG, leg(), state="hang", sizes=(), duration_s=38.0), True),
        (_as(HANG, leg(), state="hang", sizes=(), duration_s=201.0), False),
        (_as(HANG, leg()), False),
        (
            _as(
                TRANSPORT,
                leg(),
                state="not_engaged",
                reason=Reason(OTHER_WAY, "NCCL used NET, not P2P"),
            ),
            True,
        ),
        (
            _as(
                TRANSPORT,
                leg(),
                state="not_engaged",
                reason=Reason(UNPROVEN, "NCCL names no connection"),
            ),
            False,
        ),
        (_as(TRANSPORT, leg()), False),
    ],
)
def test_a_gate_fires_or_does_not(leg: Leg, fired: bool) -> None:
    assert verdict(leg)[0] is fired


@pytest.mark.parametrize("gate", [WRONG, HANG, TRANSPORT])
@pytest.mark.parametrize("state", ["failed", "not_run"])
def test_a_leg_that_ends_otherwise_proves_nothing(gate: str, state: str) -> None:
    with pytest.raises(ValueError, match=f"{gate} ended as {state}: no torch"):
        verdict(_as(gate, leg(), state=state, reason=Reason(NOT_MEASURED, "no torch"), sizes=()))


@pytest.mark.parametrize(
    ("gpus", "run"),
    [
        (0, [("prove_wrong", "prove_hang")]),
        (1, [("prove_wrong", "prove_hang")]),
        (8, [("all_reduce",), ("prove_wrong", "prove_hang")]),
    ],
)
def test_what_is_run_on_so_many_gpus(gpus: int, run: list[tuple[str, ...]]) -> None:
    specs = list(gates.orders(gpus, 0))
    assert [spec.collectives for spec in specs] == run
    assert all((spec.min_bytes, spec.max_bytes, spec.turns) == (MIB, MIB, 1) for spec in specs)
    assert bool(gates.absent(gpus)) is (gpus < 2)


def test_the_names_are_those_of_no_leg_that_is_judged() -> None:
    assert not {WRONG, HANG, TRANSPORT} & {plan.name for plan in EVERY_NODE_LEGS}
    assert CollectiveSpec.grace_s == gates.GRACE_S


def test_what_nccl_says_gives_the_transport_away() -> None:
    assert proof.problem(NO_WAY, nccl_info.read(OVER_SOCKETS)).code == OTHER_WAY
    assert proof.problem(NO_WAY, nccl_info.read(BY_PEERS)) == NONE
