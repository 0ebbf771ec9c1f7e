"""Other PCI devices can reach all memory of each GPU."""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtLeast, FromSample
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import Survey, mig_is_on
from hwcheck.node.node import Gpu, Node, NodeHost
from hwcheck.node.pcie import has_c2c

NO_ACCESS = ("CNS", "GNS", "TNS", "NS")
"""Codes of ``P2PStatus`` that no setting of the driver would change."""


@check(
    metrics=[
        Metric(
            "bar1_total_bytes",
            "bytes",
            "size of the window (BAR1) into the GPU's memory",
            (
                AtLeast(
                    "derived from NVML API Reference Guide, nvmlDeviceGetBAR1MemoryInfo (BAR1 "
                    "maps the GPU's memory for other PCIe devices), and NVIDIA GPUDirect RDMA, "
                    "PCI BAR sizes: what exceeds the window cannot be mapped at one time",
                    warn=1.0,
                    of=FromSample("memory_total_bytes"),
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        Metric("memory_total_bytes", "bytes", "memory of the GPU", required=True),
    ],
    remedy=Remedy(
        cause="Resizable BAR or decoding above 4 GiB is off in the firmware, or the board is in "
        "its display mode",
        fix="switch on Above 4G Decoding and Resizable BAR in the firmware; on boards with a "
        "display mode select the compute mode with NVIDIA's Display Mode Selector",
        command="nvidia-smi -q -d MEMORY && sudo lspci -vv -d 10de: | grep -A3 'Resizable BAR'",
    ),
    optional="peers or RDMA devices that reach GPUs over PCIe",
    group="GPUs",
    follows=("gpu_count", "infiniband_ports", "mig", "nvlink_state", "virtualization"),
)
def bar1_size(node: Node) -> Iterator[Sample]:
    """Compare the window into each GPU's memory (BAR1) with the memory behind it.

    GPUs without NVLink, and network cards, reach a GPU's memory through this window. Where it is
    256 MiB, peers cannot map the memory: data goes through the host, and collectives run at a
    fraction of what PCIe allows. A single GPU has no peer, one whose NVLinks lead to all others
    needs no window unless there are RDMA devices, and with MIG on there is no peer access: none of
    them is judged. Boards that
    are bridged in pairs reach the other pairs through it. GeForce boards to which the driver grants
    no peer access are left out as well where there is no RDMA device: nobody uses their window.
    """
    peers = len(node.gpus()) - 1
    if not peers:
        raise NotApplicable("a single GPU has no peer that could use the window")
    cards = bool(node.host.rdma_devices())
    if not cards and not _any_access(node):
        raise NotApplicable("GeForce boards without peer access, and no RDMA device")
    windows = Survey(node, lambda gpu: _window(gpu, node.host, peers, cards))
    for gpu, (window, memory) in windows.answers:
        yield Sample("bar1_total_bytes", window, "bytes", gpu.subject)
        yield Sample("memory_total_bytes", memory, "bytes", gpu.subject)
    windows.conclude(
        "every GPU has NVLink to its peers, and no RDMA device needs its window, or has MIG on, or "
        "has no such window"
    )


def _any_access(node: Node) -> bool:
    """Whether the driver may grant a GPU peer access; only GeForce boards are made without it."""
    gpus = node.gpus()
    try:
        return any(
            "GeForce" not in gpu.name() or gpu.p2p_status(peer).read not in NO_ACCESS
            for gpu in gpus
            for peer in range(len(gpus))
            if gpus[peer] is not gpu
        )
    except CouldNotMeasure:
        return True  # as far as anybody knows


def _window(gpu: Gpu, host: NodeHost, peers: int, cards: bool) -> Optional[Tuple[int, int]]:
    if mig_is_on(gpu):
        return None
    for_peers = not any(link.active for link in gpu.nvlinks()) or not _reaches(gpu, peers)
    # On NVLink-C2C the window is not the way to a GPU's memory, and a vGPU's is its host's.
    for_cards = cards and gpu.virtualization_mode() != "vgpu" and not has_c2c(gpu, host)
    if not for_peers and not for_cards:
        return None
    window = gpu.bar1_total_bytes()
    return None if window is None else (window, gpu.memory_total_bytes())


def _reaches(gpu: Gpu, peers: int) -> bool:
    """Return whether the active NVLinks lead to every other GPU, as far as NVML tells."""
    if peers == 1 or gpu.nvlink_to_switch() is not False:
        return True
    return len(set(gpu.nvlink_remotes())) >= peers
