"""GPU memory can be handed to the network card."""

from __future__ import annotations

import re
from typing import Iterator, Sequence

from hwcheck.contract.check import TIMED, CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.reasons import DRIVER_BROKEN
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Gpu, Node

MODULES = ("nvidia_peermem", "nv_peer_mem")
EFA, EFA_MODULE = "efa", "efa_nv_peermem"
COHERENT = re.compile(r"\bGB[23]00\b")
"""Boards with Grace, whose memory a card on PCIe reaches only past the driver's topology check."""
OVERRIDE = "GrdmaPciTopoCheckOverride"
WITHOUT_OVERRIDE = 595
"""The branch from which on the driver has no such parameter (NVIDIA/aicr PR 2607)."""
NVIDIA_CARDS = ("mlx4_core", "mlx5_core")
DMA_BUF_KERNEL = (5, 12)
FIRST_OPEN_BOARD = 0x1E02
"""PCI device id of the first Turing GPU (pci.ids, TU102). Boards before it have smaller ids and no
open kernel modules (NVIDIA Driver Installation Guide, Kernel Modules: Turing and newer)."""
OPERATOR = "NVIDIA GPU Operator documentation, GPUDirect RDMA"


GPUDIRECT_RDMA = Metric(
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
)


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
        GPUDIRECT_RDMA,
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
        Metric(
            "topology_check_off",
            "",
            "whether the driver lets EFA cards reach the memory of Grace boards (before R595)",
            (
                Equal(
                    True,
                    source="NVIDIA/aicr PR 640 and 2607: on GB200 with EFA dma-buf needs "
                    "NVreg_GrdmaPciTopoCheckOverride=1, else NCCL falls back to sockets; "
                    "Azure/azhpc-images PR 589 (the check compares IOMMU groups)",
                    confidence="published",
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
    group="network",
    follows=("infiniband_ports",),
    beside=TIMED,
)
def peermem(node: Node) -> Iterator[Sample]:
    """Look for the two ways in which a network card can reach GPU memory.

    Without either, every message between nodes is copied through the CPU's memory, at a fraction
    of the card's rate. dma-buf is the kernel's own way and comes with the open driver. The module
    is the only one on kernels before 5.12 and on GPUs before Turing; elsewhere it is a way that
    ends with a coming driver. Not applicable without an NVIDIA RDMA card: others bring ways of
    their own; of EFA beside GPUs of Grace boards the driver has a setting that closes them.
    """
    host = node.host
    cards = {port.driver for port in host.rdma_ports()}
    efa = EFA in cards and host.cpu_vendor() == "ARM"
    efa = efa and any(COHERENT.search(gpu.name()) for gpu in node.gpus())
    if not (cards & set(NVIDIA_CARDS) or efa):
        raise NotApplicable("no NVIDIA RDMA card")
    version = host.driver_version()
    if not version:
        words = "the NVIDIA driver is not loaded or is hidden from this login"
        raise CouldNotMeasure(words, DRIVER_BROKEN)
    names = (*MODULES, EFA_MODULE) if efa else MODULES
    module = any(host.has_module(name) for name in names)
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
    if efa and int(version.partition(".")[0]) < WITHOUT_OVERRIDE:
        yield Sample("topology_check_off", host.driver_parameter(OVERRIDE) == "1")


def _may_be_open(gpus: Sequence[Gpu]) -> bool:
    """Whether the open kernel modules drive these GPUs; ``0x233010DE ...`` has vendor 10DE."""
    boards = [int(gpu.board_id().split()[0], 16) >> 16 for gpu in gpus]
    return bool(boards) and min(boards) >= FIRST_OPEN_BOARD
