"""reduce_scatter over every GPU of the node, under several NCCL environments."""

from __future__ import annotations

from typing import Iterator, Union

from hwcheck.checks.shared.leg_checks import collective_check, timed
from hwcheck.contract.wire import Leg, Sample
from hwcheck.node.node import Node


@collective_check()
def reduce_scatter(node: Node) -> Iterator[Union[Sample, Leg]]:
    """Sum data over all GPUs and leave each its own chunk, as sharded training does with gradients.

    On request (--collectives), and in the longer profiles. Legs, sizes and verification are those
    of ``all_reduce``; out of place and in place, where a rank's output lies in its input. Source of
    the formulas: NVIDIA/nccl-tests, src/reduce_scatter.cu.
    """
    yield from timed(node, "reduce_scatter")
