"""PCIe: the way between two devices, what both ends of a link can do, and who has peers."""

from __future__ import annotations

from typing import Callable, List, NamedTuple, Optional, Tuple

from hwcheck.contract.check import CouldNotMeasure, NotApplicable
from hwcheck.node.node import Gpu, Node, NodeHost


class Place(NamedTuple):
    """Where a PCI device is: the bridges above it, nearest first, and its NUMA node."""

    address: str
    bridges: Tuple[str, ...]
    numa: Optional[int]

    @property
    def host_bridge(self) -> str:
        """Domain and number of the root bus, which is that of the topmost device."""
        return (self.bridges or (self.address,))[-1].rpartition(":")[0]


def place_of(host: NodeHost, pci_address: str) -> Place:
    """Return where sysfs shows a device."""
    bridges = tuple(host.bridges_above(pci_address))
    return Place(pci_address, bridges, host.numa_node(pci_address))


def pci_path(one: Place, other: Place) -> str:
    """Return PIX, PXB, PHB, NODE or SYS.

    Below a common bridge it is the switches that count: a device behind one switch has its
    downstream port between itself and the upstream port that all behind it share. A second bridge
    on either side is a second switch. Two unknown NUMA nodes are taken for one. Between PCI domains
    nvidia-smi prints SYS even within a NUMA node: on every public matrix of a Grace tray, where
    each host bridge is a domain, RDMA devices are SYS to all but their own card's other port.
    """
    common = next((bridge for bridge in one.bridges if bridge in other.bridges), None)
    if common is not None:
        between = max(one.bridges.index(common), other.bridges.index(common))
        return "PIX" if between <= 1 else "PXB"
    if one.host_bridge == other.host_bridge:
        return "PHB"
    same_domain = one.address.partition(":")[0] == other.address.partition(":")[0]
    return "NODE" if same_domain and one.numa == other.numa else "SYS"


ANY = 1 << 16


def widest(gpu: Gpu, host: NodeHost, now: int = ANY) -> int:
    """Return the lanes that the GPU and its slot have.

    Raises CouldNotMeasure, also where fewer are in use ``now`` and that is no evidence of a fault.
    """
    lanes = _both(gpu, host, "lanes", now, gpu.pcie_link_width_max(), host.pcie_port_width_max)
    if now < lanes == SLOT_LANES and _lanes_are_split(gpu, host):
        return HALF_A_SLOT
    return lanes


SLOT_LANES, HALF_A_SLOT = 16, 8


def _lanes_are_split(gpu: Gpu, host: NodeHost) -> bool:
    """Whether half of the lanes of the GPU's slot go to the slot beside it.

    Desktop boards wire two slots to 16 lanes of the processor and give each 8 when both are in use;
    the root port of the first may go on saying that it has 16. The ports of such a pair are
    functions of one device (two RTX 5090 at 00:01.1 and 00:01.4, with a disk that has 4 lanes of
    its own at 00:01.2 between them: noonghunna/club-3090#1075). A GPU behind the port beside, or
    half of the lanes in use there, shows the split; more than half in use there rules it out.
    Below a switch nothing is split, and a virtual machine has ports that are made up, often
    several on one device.
    """
    bridges = host.bridges_above(gpu.pci_address())
    if len(bridges) != 1 or host.hypervisor():
        return False
    device = bridges[0].rpartition(".")[0]
    beside = ["%s.%d" % (device, function) for function in range(8)]
    beside.remove(bridges[0])
    most = max(_lanes_in_use(host, port) for port in beside)
    if most >= HALF_A_SLOT:
        return most == HALF_A_SLOT
    return any(port in beside for other in host.pci_gpus() for port in host.bridges_above(other))


def _lanes_in_use(host: NodeHost, port: str) -> int:
    try:
        return host.pcie_widths(port)[0]
    except CouldNotMeasure:
        return 0  # there is no such port, or nothing is plugged in


def newest(gpu: Gpu, host: NodeHost, now: int = ANY) -> int:
    """Return the PCIe generation that the GPU and its slot reach; raises as ``widest`` does."""
    reached = gpu.pcie_link_generation_max()
    return _both(gpu, host, "generation", now, reached, host.pcie_port_generation_max)


def slot_generation(gpu: Gpu, host: NodeHost) -> Optional[int]:
    """Return the PCIe generation of the port above a GPU.

    None where it is not told, and in a virtual machine, whose ports are made up.
    """
    if host.hypervisor():
        return None
    try:
        return host.pcie_port_generation_max(gpu.pci_address())
    except CouldNotMeasure:
        return None


def _both(
    gpu: Gpu, host: NodeHost, what: str, now: int, by_nvml: int, port_max: Callable[[str], int]
) -> int:
    reached, why = by_nvml, ""
    try:
        reached = min(by_nvml, port_max(gpu.pci_address()))
    except CouldNotMeasure:  # NVML's figure is to cover the system too, but knows no cloud's slots
        if host.hypervisor():
            why = "the virtual machine does not show the slot, which may have no more"
    if now < reached and why:
        text = "%s: PCIe %s: %d now of %d: %s"
        raise CouldNotMeasure(text % (gpu.subject, what, now, reached, why))
    return reached


def has_c2c(gpu: Gpu, host: NodeHost) -> bool:
    """Whether the GPU reaches its host over NVLink-C2C: a PCIe link beside it may be slow."""
    return host.cpu_vendor() == "ARM" and is_coherent(gpu)


def is_coherent(gpu: Gpu) -> bool:
    """Whether the GPU's memory is one of the host's, as that of GH200 and GB200 is."""
    try:
        return gpu.numa_id() is not None
    except CouldNotMeasure:
        return False  # a driver that does not know of such GPUs


class Card(NamedTuple):
    """A PCIe device beside the GPUs by the name that people know it by (``mlx5_4``, ``nvme0``)."""

    subject: str
    pci_address: str


def cards(node: Node) -> List[Card]:
    """Return the functions of RDMA cards, and NVMe drives where the inventory declares them."""
    functions = [Card(*device) for device in node.host.rdma_devices().items()]
    if "nvme" in node.request.expect:
        for drive in node.host.nvme_drives():
            functions.append(Card(drive.name or "pci " + drive.pci_address, drive.pci_address))
    return functions


X86 = ("GenuineIntel", "AuthenticAMD")


def need_peers(host: NodeHost) -> None:
    """Raise NotApplicable where no PCIe traffic between devices can go astray.

    A virtual machine needs access control and translation for its isolation, and cannot change
    either. One GPU without an RDMA device has no peer. On ARM the IOMMU is part of how GPU and
    CPU share memory.
    """
    hypervisor = host.hypervisor()
    if hypervisor:
        raise NotApplicable("a virtual machine (%s) needs it for its isolation" % hypervisor)
    if host.cpu_vendor() not in X86:
        raise NotApplicable("only x86 processors can do without it")
    if len(host.pci_gpus()) < 2 and not host.rdma_ports():
        raise NotApplicable("one GPU and no RDMA device: no traffic between devices")
