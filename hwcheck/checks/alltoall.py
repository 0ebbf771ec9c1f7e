"""alltoall over every GPU of the node, under several NCCL environments."""

from __future__ import annotations

from typing import Iterator, Union

from hwcheck.checks.shared.leg_checks import collective_check, timed
from hwcheck.contract.wire import Leg, Sample
from hwcheck.node.node import Node


@collective_check()
def alltoall(node: Node) -> Iterator[Union[Sample, Leg]]:
    """Send another chunk from each GPU to each, as mixtures of experts do.

    Every pair of GPUs talks at once, so this shows what a ring does not: with peer access through
    a CPU's root complex all_reduce can gain while alltoall falls to a tenth (NVIDIA/nccl#1603).
    NCCL settings are therefore decided by both. Legs, sizes and verification are those of
    ``all_reduce``; out of place, because there is no other way. Source of the formulas:
    NVIDIA/nccl-tests, src/alltoall.cu.
    """
    yield from timed(node, "alltoall")
