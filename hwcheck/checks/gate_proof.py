"""What watches the collectives notices what it is there for: seen here, on this node."""

from __future__ import annotations

from typing import Iterator, List

from hwcheck.contract.check import WITHOUT_MIG, CouldNotMeasure, Metric, Remedy, check, in_words
from hwcheck.contract.limits import Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node
from hwcheck.node.together import gates

SOURCE = "a control that must fail: a gate that was never seen to fire proves nothing when silent"


GATE_FIRED = Metric(
    "gate_fired",
    "",
    "whether a leg that was broken on purpose was found to be broken",
    (Equal(True, SOURCE, confidence="derived"),),
    required=True,
)
MEANING = in_words("what the gate said of that leg")
GATE_ABSENT = Metric("gate_absent", "", "why a gate cannot be proven on this node")


@check(
    metrics=[
        GATE_FIRED,
        MEANING,
        GATE_ABSENT,
    ],
    remedy=Remedy(
        cause="hwcheck does not notice on this node what it is there to notice, so what it says "
        "about collectives here cannot be relied on: a defect of hwcheck, or a torch or NCCL that "
        "it does not know",
        fix="report it with the host's log; until then time the collectives with nccl-tests "
        "(--engine nccl-tests)",
        command="NCCL_DEBUG=INFO with any job shows what NCCL says of its transports",
    ),
    gpu=False,
    load=True,
    optional=WITHOUT_MIG,
    group="collectives",
    stage="prove",
)
def gate_proof(node: Node) -> Iterator[Sample]:
    """Break collectives on purpose and see that each break is noticed.

    ``prove_wrong`` damages one element of one rank's result, and the comparison has to count it
    and nothing else. In ``prove_hang`` one rank stops as a stuck process does, and the wall clock
    has to end the leg as a hang. ``prove_transport`` is a leg of GPUs that reach each other with
    P2P and shared memory switched off, and what NCCL says of its connections has to give it away.
    It runs where it is asked for (``--prove``) and says nothing about the node: no figure of these
    legs is kept or judged. The transport cannot be proven with fewer than two GPUs: gloo has one
    transport only. A leg that ends in a way that is neither proves nothing and could not be
    measured.
    """
    open_ends: List[str] = []
    missing = dict.fromkeys((gates.WRONG, gates.HANG, gates.TRANSPORT))
    gpus = 0
    for leg in node.broken_legs():
        gate = gates.gate_of(leg)
        missing.pop(gate, None)
        gpus = leg.ranks if leg.backend == "nccl" else 0
        try:
            fired, words = gates.verdict(leg)
        except ValueError as error:
            open_ends.append(str(error))
            continue
        yield Sample("gate_fired", fired, "", "gate " + gate)
        yield Sample("meaning", words, "", "gate " + gate)
    for gate, reason in gates.absent(gpus).items():
        if gate in missing:
            del missing[gate]
            yield Sample("gate_absent", reason, "", "gate " + gate)
    open_ends += ["%s gave no answer" % gate for gate in missing]
    if open_ends:
        raise CouldNotMeasure("; ".join(open_ends))
