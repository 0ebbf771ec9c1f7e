"""Every GPU of the node sends to the next one, under several NCCL environments."""

from __future__ import annotations

from typing import Iterator, Union

from hwcheck.checks.shared.leg_checks import collective_check, timed
from hwcheck.contract.check import NotApplicable
from hwcheck.contract.wire import Leg, Sample
from hwcheck.node.node import Node


@collective_check(optional="a second GPU, none of them with MIG")
def sendrecv(node: Node) -> Iterator[Union[Sample, Leg]]:
    """Send from each GPU to the next in a ring, as pipeline stages do.

    On request (--collectives), and in the longer profiles. A single slow hop shows, because no
    other path hides it. Legs, sizes and verification are those of ``all_reduce``; it does not
    apply to a node with one GPU, which has nobody to send to. Source of the formulas:
    NVIDIA/nccl-tests, src/sendrecv.cu.
    """
    for item in timed(node, "sendrecv"):
        if isinstance(item, Leg) and item.ranks == 1:
            raise NotApplicable(item.reason.text)  # its code is a leg's
        yield item
