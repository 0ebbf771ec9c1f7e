"""Negative controls: legs that are broken on purpose, and whether what watches legs notices.

What they measure is about hwcheck on this node, never about the node: no figure of theirs is kept.
"""

from __future__ import annotations

from typing import Callable, Iterator, Mapping, Tuple

from hwcheck.contract.collective_spec import CPU_RANKS, MIB, CollectiveSpec, LegPlan
from hwcheck.contract.reasons import OTHER_WAY
from hwcheck.contract.wire import Leg
from hwcheck.node.collective.hangs import Driver, nobody
from hwcheck.node.together import launch

WRONG, HANG, TRANSPORT = "prove_wrong", "prove_hang", "prove_transport"
"""What each is broken by: a damaged element, a rank that stops, a path that is switched off."""

BUDGET_S = 10.0
GRACE_S = CollectiveSpec.grace_s
START_S = CollectiveSpec.start_s
CONNECT_S = CollectiveSpec.connect_s
KILL_S = 10.0
"""A leg that hangs has ended after all five, stacks and kill included."""
VERIFICATIONS = 2
"""How often a size is compared, before and after timing: one damaged element in each."""

# The leg says that GPUs reach each other, and its environment switches every way off by which they
# do: what goes over sockets then has to be told from what was to be measured.
NO_WAY = LegPlan(TRANSPORT, {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1"})
NO_NCCL = "gloo on the CPU has one transport, and names none"
ONE_GPU = "one GPU has no peer to reach by another way"


def absent(gpus: int) -> Mapping[str, str]:
    """Return the gates that cannot be proven on so many GPUs, with the reason."""
    why = NO_NCCL if gpus == 0 else ONE_GPU if gpus == 1 else ""
    return {TRANSPORT: why} if why else {}


def orders(gpus: int, memory_available_bytes: int) -> Iterator[CollectiveSpec]:
    """Yield what is run: one small size, once. What hangs comes last."""
    broken: Tuple[Tuple[Tuple[str, ...], LegPlan], ...] = (
        (("all_reduce",), NO_WAY),
        ((WRONG, HANG), LegPlan("default", {})),
    )
    for collectives, plan in broken:
        if plan.name not in absent(gpus):
            yield CollectiveSpec(
                collectives=collectives,
                ranks=gpus or CPU_RANKS,
                gpus=gpus,
                budget_s=BUDGET_S,
                memory_available_bytes=memory_available_bytes,
                legs=(plan,),
                min_bytes=MIB,
                max_bytes=MIB,
                turns=1,
                grace_s=GRACE_S,
                start_s=START_S,
                connect_s=CONNECT_S,
            )


def run(
    python: str,
    payload: str,
    gpus: int,
    memory_available_bytes: int,
    progress: Callable[[str], None],
    driver: Driver = nobody,
) -> Iterator[Leg]:
    """Run the legs that can be broken on this node. Raises CouldNotMeasure as ``launch.drive``."""
    for spec in orders(gpus, memory_available_bytes):
        for leg in launch.drive(spec, python, payload, progress, driver=driver):
            if isinstance(leg, Leg):
                yield leg


def gate_of(leg: Leg) -> str:
    """Return the gate that a leg is to prove."""
    return TRANSPORT if leg.leg == TRANSPORT else leg.collective


def verdict(leg: Leg) -> Tuple[bool, str]:
    """Return whether the gate fired, and what it said.

    Raises ValueError with the reason where the leg came to something else than either.
    """
    gate = gate_of(leg)
    if gate == WRONG and leg.state == "done":
        counted = sum(size.all_wrong for size in leg.sizes)
        words = "%d of %d damaged elements were counted" % (counted, VERIFICATIONS)
        return counted == VERIFICATIONS, words
    if gate == HANG and leg.state == "hang":
        words = "a stopped rank became a hang in %.0f s: %s" % (leg.duration_s, leg.reason)
        limit_s = START_S + CONNECT_S + BUDGET_S + GRACE_S + KILL_S
        return leg.duration_s <= limit_s, words
    if gate == HANG and leg.state == "done":
        return False, "a leg with a stopped rank was taken for one that ended"
    if gate == TRANSPORT and leg.state == "not_engaged":
        return leg.reason.code == OTHER_WAY, leg.reason.text
    if gate == TRANSPORT and leg.state == "done":
        return False, "with P2P and shared memory off the leg was taken for one that used them"
    raise ValueError("%s ended as %s: %s" % (gate, leg.state, leg.reason or "no reason given"))
