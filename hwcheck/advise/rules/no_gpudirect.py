"""Network cards cannot reach GPU memory."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="GPUDirect RDMA is not possible: neither nvidia-peermem nor dma-buf",
    follows="data to other nodes is copied through host memory first, at about half the bandwidth",
    fix="load nvidia-peermem at boot (a file in /etc/modules-load.d), or install the open "
    "kernel modules of the driver",
    confirm="lsmod | grep nvidia_peermem; modinfo nvidia | grep license",
    source="NVIDIA GPUDirect RDMA documentation; NCCL User Guide, Troubleshooting, GPU Direct RDMA",
)
def no_gpudirect(case: Case) -> Sign | None:
    """Look for it. The modules are there or they are not."""
    return sign("certain", case.bad("peermem", "gpudirect_rdma"))
