"""all_reduce over every GPU of the node, under several NCCL environments."""

from __future__ import annotations

from typing import Iterator, Union

from hwcheck.limits import Equal
from hwcheck.node.check import WITHOUT_MIG, Metric, Node, Remedy, check
from hwcheck.node.collective.leg_samples import leg_samples
from hwcheck.node.collective.spec import LEGS
from hwcheck.wire import Leg, Sample

BUSBW_SOURCE = "NVIDIA/nccl-tests, doc/PERFORMANCE.md"


@check(
    metrics=(
        Metric(
            "leg_state",
            "",
            "done, hang (killed by its wall clock) or failed",
            (Equal("done", "a healthy node ends every leg; NVIDIA/nccl#631, NVIDIA/nccl#257"),),
        ),
        Metric(
            "wrong_elements",
            "elements",
            "elements that are not the exact sum, over all ranks and sizes",
            (Equal(0, "exact integers, tolerance 0, as nccl-tests' #wrong (README.md, -c)"),),
        ),
        Metric("largest_size_bytes", "bytes", "the largest size, which the figures belong to"),
        Metric("busbw_gbps", "GB/s", "bus bandwidth at the largest size; " + BUSBW_SOURCE),
        Metric("algbw_gbps", "GB/s", "size over time at the largest size; " + BUSBW_SOURCE),
        Metric("busbw_spread", "share", "inter-quartile range over median of the largest size"),
    ),
    remedy=Remedy(
        cause="GPUs that cannot reach each other: PCIe ACS or IOMMU redirecting peer traffic, a "
        "broken NVLink or NVSwitch fabric, a driver that grants peer access which does not work",
        fix="read which leg failed and its log: fails in default but not in p2p_off is peer "
        "access; fails in p2p_off but not in net is shared memory (/dev/shm); fails in all is "
        "the driver, the fabric or torch",
        command="nvidia-smi topo -m; nvidia-smi topo -p2p r; lspci -vvv | grep ACSCtl",
    ),
    gpu=False,
    load=True,
    legs=[leg.name for leg in LEGS],
    optional=WITHOUT_MIG,
)
def all_reduce(node: Node) -> Iterator[Union[Sample, Leg]]:
    """Sum data over all GPUs, with peer access as NCCL chooses it, without it, and over sockets.

    Each leg (``default``, ``p2p_off``, ``net``) runs in processes of its own, because NCCL reads
    its environment once. Sizes double from 1 MiB to 1 GiB as far as memory and the time budget
    allow; the figures are those of the largest size, the median of at least 20 iterations, each
    as long as its slowest rank. Data is compared exactly before and after timing. A leg that does
    not end is killed and the others still run; a leg that did not end has no bandwidth.

    Bandwidth is recorded and not judged here: there is no limit without an expectation for this
    hardware. A node with no GPU runs gloo on the CPU, which exercises the path and says nothing
    about GPUs. With MIG on it does not apply: a process is given one instance of one GPU, and there
    is no peer access (NVIDIA Multi-Instance GPU User Guide). Sources: NVIDIA/nccl-tests
    doc/PERFORMANCE.md (formulas) and README.md (#wrong).
    """
    for leg in node.legs("all_reduce"):
        yield leg
        yield from leg_samples(leg)
