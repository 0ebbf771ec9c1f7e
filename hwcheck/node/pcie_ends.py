"""What both ends of a GPU's PCIe link can do."""

from __future__ import annotations

from typing import Callable

from hwcheck.node.check import CouldNotMeasure, Gpu, Host

ANY = 1 << 16


def widest(gpu: Gpu, host: Host, now: int = ANY) -> int:
    """Return the lanes that the GPU and its slot have.

    Raises CouldNotMeasure, also where fewer are in use ``now`` and that is no evidence of a fault.
    """
    return _both(gpu, host, "lanes", now, gpu.pcie_link_width_max(), host.pcie_port_width_max)


def newest(gpu: Gpu, host: Host, now: int = ANY) -> int:
    """Return the PCIe generation that the GPU and its slot reach; raises as ``widest`` does."""
    reached = gpu.pcie_link_generation_max()
    return _both(gpu, host, "generation", now, reached, host.pcie_port_generation_max)


def _both(
    gpu: Gpu, host: Host, what: str, now: int, by_nvml: int, port_max: Callable[[str], int]
) -> int:
    reached, why = by_nvml, ""
    try:
        reached = min(by_nvml, port_max(gpu.pci_address()))
    except CouldNotMeasure:  # NVML's figure is to cover the system too, but knows no cloud's slots
        if host.hypervisor():
            why = "the virtual machine does not show the slot, which may have no more"
    if now < reached and host.cpu_vendor() == "ARM" and _is_coherent(gpu):
        why = "the way to the host is NVLink-C2C, and the PCIe link beside it may be slow"
    if now < reached and why:
        text = "%s: PCIe %s: %d now of %d: %s"
        raise CouldNotMeasure(text % (gpu.subject, what, now, reached, why))
    return reached


def _is_coherent(gpu: Gpu) -> bool:
    """Whether the GPU's memory is one of the host's, as that of GH200 and GB200 is."""
    try:
        return gpu.numa_id() is not None
    except CouldNotMeasure:
        return False  # a driver that does not know of such GPUs
