"""all_gather over every GPU of the node, under several NCCL environments."""

from __future__ import annotations

from typing import Iterator, Union

from hwcheck.checks.shared.leg_checks import collective_check, timed
from hwcheck.contract.wire import Leg, Sample
from hwcheck.node.node import Node


@collective_check()
def all_gather(node: Node) -> Iterator[Union[Sample, Leg]]:
    """Give every GPU the chunks of all, as sharded training does before each layer.

    On request (--collectives), and in the longer profiles. Legs, sizes and verification are those
    of ``all_reduce``; out of place and in place, where the chunk that a rank sends lies in its
    output. Source of the formulas: NVIDIA/nccl-tests, src/all_gather.cu.
    """
    yield from timed(node, "all_gather")
