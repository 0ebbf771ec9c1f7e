"""all_reduce over every GPU of the node, under several NCCL environments."""

from __future__ import annotations

from typing import Iterator, Union

from hwcheck.limits import Equal
from hwcheck.node.check import Metric, Node, Remedy, check
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
    about GPUs. Sources: NVIDIA/nccl-tests doc/PERFORMANCE.md (formulas) and README.md (#wrong).
    """
    for leg in node.legs("all_reduce"):
        yield leg
        yield from samples(leg)


def samples(leg: Leg) -> Iterator[Sample]:
    """Yield the samples of one leg."""
    subject = "leg " + leg.leg
    yield Sample("leg_state", leg.state, "", subject)
    if not leg.sizes:
        return
    wrong = sum(size.wrong for size in leg.sizes)
    yield Sample("wrong_elements", wrong, "elements", subject)
    if leg.state != "done":
        return
    largest = max(leg.sizes, key=lambda size: size.size_bytes)
    yield Sample("largest_size_bytes", largest.size_bytes, "bytes", subject)
    yield Sample("busbw_gbps", largest.busbw_gbps, "GB/s", subject)
    yield Sample("algbw_gbps", largest.algbw_gbps, "GB/s", subject)
    yield Sample("busbw_spread", largest.spread, "share", subject)
