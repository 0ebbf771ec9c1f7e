"""all_reduce over every GPU of the node, under several NCCL environments."""

from __future__ import annotations

from typing import Iterator, Union

from hwcheck.checks.shared.leg_checks import collective_check, timed
from hwcheck.contract.wire import Leg, Sample
from hwcheck.node.node import Node


@collective_check()
def all_reduce(node: Node) -> Iterator[Union[Sample, Leg]]:
    """Sum data over all GPUs, with peer access as NCCL chooses it, without it, and over sockets.

    Each leg runs in processes of its own, because NCCL reads its environment once: ``default``,
    ``p2p_off`` and ``net``; where a node has both kinds of pairs, ``nvlink_only`` and ``p2p_sys``,
    and ``site`` where something sets an NCCL variable. Sizes double from 1 MiB to 1 GiB as far as
    memory and the time budget allow; the figures are those of the largest size, the median of at
    least 20 iterations, each as long as its slowest rank. Legs take turns, and the sizes at which
    they are compared are timed in up to three of these. Data is compared exactly before and after
    timing. A leg that does not end is killed and the others still run; a leg that did not end, or
    in which NCCL says that it took another way, has no bandwidth.

    Bandwidth is recorded and not judged here: there is no limit without an expectation for this
    hardware. A node with no GPU runs gloo on the CPU, which exercises the path and says nothing
    about GPUs. With MIG on it does not apply: a process is given one instance of one GPU, and there
    is no peer access (NVIDIA Multi-Instance GPU User Guide). Sources: NVIDIA/nccl-tests
    doc/PERFORMANCE.md (formulas) and README.md (#wrong).
    """
    yield from timed(node, "all_reduce")
