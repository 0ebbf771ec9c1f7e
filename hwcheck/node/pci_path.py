"""The way between two PCI devices, in the words of ``nvidia-smi topo -m``."""

from __future__ import annotations

from typing import NamedTuple, Optional, Tuple

from hwcheck.node.check import Host


class Place(NamedTuple):
    """Where a PCI device is: the bridges above it, nearest first, and its NUMA node."""

    address: str
    bridges: Tuple[str, ...]
    numa: Optional[int]

    @property
    def host_bridge(self) -> str:
        """Domain and number of the root bus, which is that of the topmost device."""
        return (self.bridges or (self.address,))[-1].rpartition(":")[0]


def place_of(host: Host, pci_address: str) -> Place:
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
