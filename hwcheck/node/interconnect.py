"""How the GPUs of a node are connected: NVLinks pair by pair, and PCIe where there is none."""

from __future__ import annotations

import itertools
from typing import Iterator, List, NamedTuple, Optional, Tuple, Union

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.reasons import Reason
from hwcheck.node.gpus import NO_GPU, mig_is_on
from hwcheck.node.node import Gpu, Node
from hwcheck.node.pcie import Place, pci_path, place_of
from hwcheck.node.threads import side_by_side

SPEED_GBPS = {
    "1.0": 20.0,
    "2.0": 25.78125,
    "2.2": 25.78125,
    "3.0": 25.0,
    "3.1": 14.0625,
    "4.0": 26.5625,
    "5.0": 53.125,
}
"""1e9 bytes/s each way of one link by NVLink version: lanes times the rate of a lane.

8 x 20 and 8 x 25.78125 Gb/s (Pascal; Volta and Turing), 4 x 50 and 4 x 28.125 Gb/s (GA100; GA102,
whose white paper gives 14.0625 GB/s), 2 x 106.25 Gb/s (Hopper), 2 x 212.5 Gb/s (Blackwell).
"""

ROUNDING_GBPS = 0.001
"""NVML cuts off what is below 1 MB/s."""


def link_gbps(reported_gbps: Optional[float], version: Optional[str]) -> Optional[float]:
    """Return the speed of a link each way in 1e9 bytes/s, or None where it cannot be known.

    ``reported_gbps`` is NVML's figure; it counts, for a link may run below its version's speed.
    """
    if reported_gbps is None:
        return SPEED_GBPS.get(version or "")
    for exact in SPEED_GBPS.values():
        if abs(exact - reported_gbps) <= ROUNDING_GBPS:
            return exact
    return reported_gbps


class ActiveLink(NamedTuple):
    """One active NVLink: PCI address of its far end (empty behind a switch), speed each way."""

    remote: str
    gbps: Optional[float]


class LinkedGpu(NamedTuple):
    """One GPU that answered: the ``number`` by which NVML counts it, its model, whether MIG is on.

    ``links`` are the active NVLinks; all of them lead to switches, or none.
    """

    gpu: Gpu
    number: int
    address: str
    model: str
    mig: bool
    links: Tuple[ActiveLink, ...]
    to_switch: bool

    @property
    def subject(self) -> str:
        """``gpu3``."""
        return self.gpu.subject


class Interconnect:
    """The GPUs of a node with what is between them.

    ``members`` answered; ``reasons`` say why the others did not. Raises CouldNotMeasure where NVML
    does not answer or sees no GPU.
    """

    def __init__(self, node: Node) -> None:
        self._host = node.host
        self.members: List[LinkedGpu] = []
        self.reasons: List[Reason] = []
        gpus = node.gpus()
        if not gpus:
            raise CouldNotMeasure.of(NO_GPU)

        def of(number: int) -> Union[LinkedGpu, CouldNotMeasure]:
            try:
                return _member(number, gpus[number], node)
            except CouldNotMeasure as error:
                return error

        for answer in side_by_side(of, range(len(gpus))):
            if isinstance(answer, LinkedGpu):
                self.members.append(answer)
            else:
                self.reasons.append(answer.reason)

    def pairs(self) -> Iterator[Tuple[LinkedGpu, LinkedGpu]]:
        """Yield every two GPUs once."""
        return itertools.combinations(self.members, 2)

    def place(self, member: LinkedGpu) -> Place:
        """Return where sysfs shows a GPU. Raises CouldNotMeasure where it does not."""
        if member.address not in self._host.pci_gpus():
            raise CouldNotMeasure(
                "%s: the kernel shows no GPU at %s" % (member.subject, member.address)
            )
        return place_of(self._host, member.address)

    def path(self, one: LinkedGpu, other: LinkedGpu) -> str:
        """Return NV#, PIX, PXB, PHB, NODE or SYS. Raises CouldNotMeasure.

        The way over PCIe is NVML's, and the kernel's where NVML has none.
        """
        links = nvlinks(one, other)
        if links:
            return "NV%d" % links
        by_nvml = one.gpu.pcie_path(other.number)
        return by_nvml or pci_path(self.place(one), self.place(other))


def nvlinks(one: LinkedGpu, other: LinkedGpu) -> int:
    """Return how many NVLinks join two GPUs; a link counts when both ends have it up.

    Behind switches everybody reaches everybody with all links.
    """
    if one.to_switch and other.to_switch:
        return min(len(one.links), len(other.links))
    return min(len(links_to(one, other)), len(links_to(other, one)))


def nvlink_gbps(one: LinkedGpu, other: LinkedGpu) -> Optional[float]:
    """Return what the NVLinks between two GPUs carry each way in 1e9 bytes/s, all together."""
    switched = one.to_switch and other.to_switch
    ways = (one.links, other.links) if switched else (links_to(one, other), links_to(other, one))
    sums = []
    for links in ways:
        speeds = [link.gbps for link in links if link.gbps is not None]
        if len(speeds) < len(links):
            return None
        sums.append(sum(speeds))
    return min(sums)


def links_to(one: LinkedGpu, other: LinkedGpu) -> Tuple[ActiveLink, ...]:
    """Return the links of one GPU that lead straight to another."""
    return tuple(link for link in one.links if link.remote == other.address)


def links_to_switches(gpu: Gpu, node: Node) -> bool:
    """Return whether the active NVLinks of a GPU lead to NVSwitches. Raises CouldNotMeasure.

    A guest may have NVLinks and not be shown the switches: NVML then does not know what the far
    ends are. A GPU registers with a fabric of switches and with nothing else, and far ends that
    are no GPU of the node are those of switches, as NCCL takes it (NVIDIA/nccl,
    src/graph/xml.cc: "not visible inside this VM. Assume NVSwitch").
    """
    if not any(link.active for link in gpu.nvlinks()):
        return False
    by_nvml = gpu.nvlink_to_switch()
    if by_nvml is not None:
        return by_nvml
    if gpu.fabric() is not None:
        return True
    return set(node.host.pci_gpus()).isdisjoint(gpu.nvlink_remotes())


def _member(number: int, gpu: Gpu, node: Node) -> LinkedGpu:
    active = [link for link in gpu.nvlinks() if link.active]
    to_switch = links_to_switches(gpu, node)
    remotes = gpu.nvlink_remotes() if active and not to_switch else [""] * len(active)
    if not to_switch and "" in remotes:
        raise CouldNotMeasure("%s: NVML does not say where its NVLinks lead" % gpu.subject)
    silent = any(link.speed_gbps is None for link in active)
    version = gpu.nvlink_version() if silent else None
    return LinkedGpu(
        gpu,
        number,
        gpu.pci_address(),
        gpu.name(),
        mig_is_on(gpu),
        tuple(
            ActiveLink(remotes[place], link_gbps(link.speed_gbps, version))
            for place, link in enumerate(active)
        ),
        to_switch,
    )
