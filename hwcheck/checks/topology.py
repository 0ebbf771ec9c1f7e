"""How GPUs, RDMA devices, CPUs and memory are connected, as ``nvidia-smi topo -m`` shows it."""

from __future__ import annotations

import itertools
from typing import Dict, Iterator, List, Optional, Tuple

from hwcheck.contract.check import (
    BY_IDENTITY,
    BY_SLOT,
    TIMED,
    CouldNotMeasure,
    Metric,
    Remedy,
    check,
)
from hwcheck.contract.limits import AtLeast, AtMost, Equal, FromSample
from hwcheck.contract.reasons import Reason, together
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import UP_NVLINKS
from hwcheck.node.interconnect import Interconnect, LinkedGpu, links_to, nvlink_gbps, nvlinks
from hwcheck.node.node import Node
from hwcheck.node.pcie import Place, pci_path, place_of

REMOTE = "derived from NVML API Reference Guide, nvmlDeviceGetNvLinkRemotePciInfo"
WAY = "PIX one PCIe switch, PXB several, PHB a host bridge, NODE host bridges of one NUMA node, "
WAY += "SYS the way between NUMA nodes"

MOST_NICS = 32
"""NCCL uses no more (MAX_IB_DEVS, src/transport/net_ib)."""


PCI_ADDRESS = Metric(
    "pci_address",
    "",
    "PCI address of a GPU or an RDMA device",
    required=True,
    varies=BY_IDENTITY,
)
CPU_AFFINITY = Metric(
    "cpu_affinity",
    "",
    "CPUs near the GPU",
    varies=BY_SLOT,
    of_some="goes by its slot",
)
NUMA_AFFINITY = Metric(
    "numa_affinity",
    "",
    "NUMA nodes whose memory is near the GPU",
    varies=BY_SLOT,
    of_some="goes by its slot",
)
GPU_NUMA_ID = Metric(
    "gpu_numa_id",
    "",
    "NUMA node that the GPU's own memory is",
    varies=BY_SLOT,
)
NVSWITCH = Metric(
    "nvswitch",
    "",
    "whether the GPU's NVLinks lead to NVSwitches",
    of_some=UP_NVLINKS,
)
PATH = Metric("path", "", "way between two GPUs: NV# that many NVLinks, " + WAY)
NVLINK_GBPS = Metric(
    "nvlink_gbps", "GB/s", "what the NVLinks of a pair carry each way, all together"
)
NIC_PATH = Metric("nic_path", "", "way between a GPU or an RDMA device and another one: " + WAY)


@check(
    metrics=[
        PCI_ADDRESS,
        CPU_AFFINITY,
        NUMA_AFFINITY,
        GPU_NUMA_ID,
        Metric(
            "numa_unknown",
            "",
            "whether nothing says on which of the machine's NUMA nodes the GPU is",
            (
                Equal(
                    False,
                    source="Linux ABI, testing/sysfs-bus-pci, numa_node: -1 comes from firmware "
                    "that does not tell, and ranks cannot be kept near their GPU",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
        ),
        NVSWITCH,
        Metric(
            "nvlinks_unanswered",
            "links",
            "active NVLinks to a GPU of this node that does not have them up",
            (
                AtMost(
                    REMOTE + ": both ends of a link that is up name each other",
                    fail=0,
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        PATH,
        Metric(
            "nvlinks",
            "links",
            "NVLinks between two GPUs, where GPUs like them are wired alike",
            (
                AtLeast(
                    REMOTE + ": pairs of one model in one node, behind switches or bridged two "
                    "by two, are wired alike, so the best of them shows what is meant",
                    fail=1.0,
                    of=FromSample("nvlinks_of_peers"),
                    confidence="derived",
                ),
            ),
        ),
        Metric("nvlinks_of_peers", "links", "the most NVLinks of any pair like this one"),
        NVLINK_GBPS,
        NIC_PATH,
    ],
    remedy=Remedy(
        cause="NVLinks that did not train (a bridge or board that is not seated, a damaged "
        "connector), or firmware that does not place the GPU's slot",
        fix="for NVLinks: read the kernel log for Xid 74 and SXid, reset the GPUs or reboot, "
        "reseat bridge or board; for the NUMA node: update the firmware, look for a setting that "
        "hides the NUMA nodes",
        command="nvidia-smi topo -m && nvidia-smi nvlink --status",
    ),
    per_gpu=True,
    group="NVLink, P2P",
    beside=TIMED,
)
def topology(node: Node) -> Iterator[Sample]:
    """Find the way between every two GPUs, and from each to RDMA devices, CPUs and memory.

    A collective is as quick as the slowest hop on its way: NVLink, a PCIe switch, a host bridge or
    the link between sockets. Which of them it is decides what busbw a node can reach and whether
    an RDMA device reaches a GPU's memory directly. Pairs with different numbers of NVLinks are as
    they were built in a cube mesh; behind switches, or bridged two by two, one with fewer has lost
    some.
    """
    interconnect = Interconnect(node)
    reasons = list(interconnect.reasons)
    for member in interconnect.members:
        try:
            yield from _gpu(node, interconnect, member)
        except CouldNotMeasure as error:
            reasons.append(error.reason)
    expected = _expected(interconnect)
    for one, other in interconnect.pairs():
        subject = "%s-%s" % (one.subject, other.subject)
        try:
            yield Sample("path", interconnect.path(one, other), "", subject)
        except CouldNotMeasure as error:
            reasons.append(error.reason)
        yield from _nvlinks(subject, one, other, expected.get((one.number, other.number)))
    yield from _nics(node, interconnect, reasons)
    if reasons:
        raise CouldNotMeasure.of(together(reasons))


def _gpu(node: Node, interconnect: Interconnect, member: LinkedGpu) -> Iterator[Sample]:
    gpu, subject = member.gpu, member.subject
    yield Sample("pci_address", member.address, "", subject)
    gpu_node = gpu.numa_id()
    near = {
        "cpu_affinity": gpu.cpu_affinity(),
        "numa_affinity": gpu.numa_affinity(),
        "gpu_numa_id": None if gpu_node is None else str(gpu_node),
    }
    for metric, text in near.items():
        if text is not None:
            yield Sample(metric, text, "", subject)
    if node.host.numa_nodes() > 1 and not node.host.hypervisor():
        yield Sample("numa_unknown", node.host.numa_node(member.address) is None, "", subject)
    if member.links:
        yield Sample("nvswitch", member.to_switch, "", subject)
    lost = sum(
        max(0, len(links_to(member, peer)) - len(links_to(peer, member)))
        for peer in interconnect.members
        if not peer.to_switch and not peer.mig
    )
    yield Sample("nvlinks_unanswered", lost, "links", subject)


def _nvlinks(
    subject: str, one: LinkedGpu, other: LinkedGpu, expected: Optional[int]
) -> Iterator[Sample]:
    links = nvlinks(one, other)
    if expected is not None:
        yield Sample("nvlinks", links, "links", subject)
        yield Sample("nvlinks_of_peers", expected, "links", subject)
    speed = nvlink_gbps(one, other)
    if links and speed is not None:
        yield Sample("nvlink_gbps", speed, "GB/s", subject)


def _expected(interconnect: Interconnect) -> Dict[Tuple[int, int], int]:
    """Return how many NVLinks the pairs should have that are wired alike, by their indexes.

    Behind switches that is every pair of a model, and of boards that are bridged two by two the
    pairs with a bridge. With MIG on links may be down, and a mesh has pairs of several kinds.
    """
    alike: Dict[Tuple[str, str], List[Tuple[int, int]]] = {}
    most: Dict[Tuple[str, str], int] = {}
    switched = {member.model for member in interconnect.members if member.to_switch}
    for one, other in interconnect.pairs():
        links = nvlinks(one, other)
        behind_switches = one.model in switched and other.model in switched
        if one.mig or other.mig or not (behind_switches or _bridged(one, other)):
            continue
        kind = (min(one.model, other.model), max(one.model, other.model))
        alike.setdefault(kind, []).append((one.number, other.number))
        most[kind] = max(most.get(kind, 0), links)
    return {pair: most[kind] for kind, pairs in alike.items() for pair in pairs}


def _bridged(one: LinkedGpu, other: LinkedGpu) -> bool:
    """Return whether two GPUs are joined, and neither has a link to anything else.

    Of a mesh a container may show two GPUs only; their other links tell it from a bridge.
    """
    ends = ((one, other), (other, one))
    return all(0 < len(links_to(a, b)) == len(a.links) for a, b in ends)


def _nics(node: Node, interconnect: Interconnect, reasons: List[Reason]) -> Iterator[Sample]:
    """Yield the RDMA devices and the ways to them; GPUs that cannot be placed go to ``reasons``."""
    nics: List[Tuple[str, Place]] = []
    for name, address in list(node.host.rdma_devices().items())[:MOST_NICS]:
        yield Sample("pci_address", address, "", name)
        nics.append((name, place_of(node.host, address)))
    for member in interconnect.members if nics else ():
        try:
            place = interconnect.place(member)
        except CouldNotMeasure as error:
            reasons.append(error.reason)
            continue
        for name, other in nics:
            yield Sample("nic_path", pci_path(place, other), "", "%s-%s" % (member.subject, name))
    for (first, one), (second, other) in itertools.combinations(nics, 2):
        yield Sample("nic_path", pci_path(one, other), "", "%s-%s" % (first, second))
