"""broadcast from GPU 0 over every GPU of the node, under several NCCL environments."""

from __future__ import annotations

from typing import Iterator, Union

from hwcheck.checks.shared.leg_checks import collective_check, timed
from hwcheck.contract.wire import Leg, Sample
from hwcheck.node.node import Node


@collective_check()
def broadcast(node: Node) -> Iterator[Union[Sample, Leg]]:
    """Send GPU 0's data to all, in one direction only.

    On request (--collectives), and in the longer profiles. CPUs that are weak at traffic both ways
    show it beside all_reduce (NVIDIA/nccl#384). Legs, sizes and verification are those of
    ``all_reduce``. Source of the formulas: NVIDIA/nccl-tests, src/broadcast.cu.
    """
    yield from timed(node, "broadcast")
