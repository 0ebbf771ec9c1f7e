"""What both ends of a GPU's PCIe link can do."""

from __future__ import annotations

from typing import Callable

from hwcheck.node.check import CouldNotMeasure, Gpu, Host


def widest(gpu: Gpu, host: Host) -> int:
    """Return the lanes that the GPU and its slot have. Raises CouldNotMeasure."""
    return _both(gpu.pcie_link_width_max(), host.pcie_port_width_max, gpu.pci_address())


def newest(gpu: Gpu, host: Host) -> int:
    """Return the PCIe generation that the GPU and its slot reach. Raises CouldNotMeasure."""
    return _both(gpu.pcie_link_generation_max(), host.pcie_port_generation_max, gpu.pci_address())


def _both(by_nvml: int, port_max: Callable[[str], int], address: str) -> int:
    try:
        return min(by_nvml, port_max(address))
    except CouldNotMeasure:
        return by_nvml  # a virtual machine shows no port; NVML's figure covers the system too
