"""GPU memory can be handed to the network card."""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from hwcheck.node.check import CouldNotMeasure, Gpu, Metric, Node, NotApplicable, Remedy, check
from hwcheck.node.limits import Equal
from hwcheck.node.wire import Sample

MODULES = ("nvidia_peermem", "nv_peer_mem")
NVIDIA_CARDS = ("mlx4_core", "mlx5_core")
DMA_BUF_KERNEL = (5, 12)
FIRST_OPEN_BOARD = 0x1E02
"""PCI device id of the first Turing GPU (pci.ids, TU102). Boards before it have smaller ids and no
open kernel modules (NVIDIA Driver Installation Guide, Kernel Modules: Turing and newer)."""
OPERATOR = "NVIDIA GPU Operator documentation, GPUDirect RDMA"


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
            "dma_buf",
            "",
            "whether driver and kernel can hand GPU memory over as a dma-buf; it needs no module",
        ),
        Metric(
            "gpudirect_rdma",
            "",
            "whether one of the two ways of GPUDirect RDMA is there: dma-buf, or the module",
            (
                Equal(
                    True,
                    source=OPERATOR + ": dma-buf with the open kernel modules on Linux 5.12 or "
                    "later, or nvidia-peermem",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
        Metric(
            "peermem_alone",
            "",
            "whether it hangs on the module alone, where kernel and GPUs could have dma-buf",
            (
                Equal(
                    False,
                    source=OPERATOR + " (dma-buf is recommended, nvidia-peermem is legacy); "
                    "GPUDirect RDMA guide, Changes in CUDA 13.0 (the NV-P2P API, which "
                    "nvidia-peermem stands on, is deprecated)",
                    otherwise="warn",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="the driver or the kernel has no dma-buf, and nvidia-peermem is all there is, or is "
        "not loaded",
        fix="install the driver's open kernel modules on Linux 5.12 or later; on an older kernel, "
        "or with GPUs before Turing, load nvidia-peermem at boot (a file in /etc/modules-load.d)",
        command="cat /proc/driver/nvidia/version; uname -r; lsmod | grep -E 'peermem|nv_peer_mem'",
        role="rdma",
    ),
    optional="NVIDIA RDMA cards",
)
def peermem(node: Node) -> Iterator[Sample]:
    """Look for the two ways in which a network card can reach GPU memory.

    Without either, every message between nodes is copied through the CPU's memory, at a fraction
    of the card's rate. dma-buf is the kernel's own way and comes with the open driver. The module
    is the only one on kernels before 5.12 and on GPUs before Turing; elsewhere it is a way that
    ends with a coming driver. Not applicable without an NVIDIA RDMA card: others bring ways of
    their own.
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
    dma_buf = is_open and new
    yield Sample("dma_buf", dma_buf)
    yield Sample("gpudirect_rdma", dma_buf or module)
    if module and new:
        yield Sample("peermem_alone", not dma_buf and _may_be_open(node.gpus()))


def _may_be_open(gpus: Sequence[Gpu]) -> bool:
    """Whether the open kernel modules drive these GPUs; ``0x233010DE ...`` has vendor 10DE."""
    boards = [int(gpu.board_id().split()[0], 16) >> 16 for gpu in gpus]
    return bool(boards) and min(boards) >= FIRST_OPEN_BOARD
