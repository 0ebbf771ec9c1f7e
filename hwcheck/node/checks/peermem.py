"""GPU memory can be handed to the network card."""

from __future__ import annotations

import re
from typing import Iterator

from hwcheck.node.check import CouldNotMeasure, Metric, Node, NotApplicable, Remedy, check
from hwcheck.node.limits import Equal
from hwcheck.node.wire import Sample

MODULES = ("nvidia_peermem", "nv_peer_mem")
NVIDIA_CARDS = ("mlx4_core", "mlx5_core")
DMA_BUF_KERNEL = (5, 12)


@check(
    metrics=[
        Metric("peermem_module", "", "whether the peer memory module is loaded", required=True),
        Metric(
            "driver_is_open",
            "",
            "whether the GPU driver's kernel module is the open one",
            required=True,
        ),
        Metric(
            "gpudirect_rdma",
            "",
            "whether one of the two ways of GPUDirect RDMA is there: the module, or dma-buf",
            (
                Equal(
                    True,
                    source="NVIDIA GPU Operator documentation, GPUDirect RDMA: nvidia-peermem, or "
                    "dma-buf with the open kernel modules on Linux 5.12 or later",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="nvidia-peermem is not loaded, and the driver or the kernel has no dma-buf",
        fix="load nvidia-peermem at boot (a file in /etc/modules-load.d), or install the driver's "
        "open kernel modules on Linux 5.12 or later",
        command="lsmod | grep -E 'peermem|nv_peer_mem'; cat /proc/driver/nvidia/version; uname -r",
        role="rdma",
    ),
    optional="NVIDIA RDMA cards",
)
def peermem(node: Node) -> Iterator[Sample]:
    """Look for the two ways in which a network card can reach GPU memory.

    Without either, every message between nodes is copied through the CPU's memory, at a fraction
    of the card's rate. Not applicable without an NVIDIA RDMA card: others bring ways of their own.
    """
    host = node.host
    if not any(port.driver in NVIDIA_CARDS for port in host.rdma_ports()):
        raise NotApplicable("no NVIDIA RDMA card")
    if not host.driver_version():
        raise CouldNotMeasure("the NVIDIA driver is not loaded or is hidden from this login")
    module = any(host.has_module(name) for name in MODULES)
    is_open = host.driver_is_open()
    yield Sample("peermem_module", module)
    yield Sample("driver_is_open", is_open)
    release = re.match(r"(\d+)\.(\d+)", host.kernel_setting("kernel/osrelease"))
    new = release is not None and tuple(map(int, release.groups())) >= DMA_BUF_KERNEL
    yield Sample("gpudirect_rdma", module or (is_open and new))
