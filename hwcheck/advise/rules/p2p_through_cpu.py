"""A collective is slower with P2P than through host memory."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="PCIe P2P goes through a CPU that forwards it badly",
    follows="the default is slower than shared memory for some collectives, often alltoall and so "
    "MoE models",
    fix="leave NCCL alone where only all_reduce matters; otherwise NCCL_P2P_LEVEL=PXB (NVL "
    "where bridged), or NCCL_P2P_DISABLE=1 where every collective gains, and test after "
    "each upgrade",
    confirm="nvidia-smi topo -m; time all_reduce and alltoall with and without NCCL_P2P_DISABLE=1",
    source="NVIDIA/nccl issue 1603 (4x RTX 4090: alltoall 18 to 2 GB/s with P2P), issues 1817 "
    "and 384",
)
def p2p_through_cpu(case: Case) -> Sign | None:
    """Look for it. ACS or the IOMMU explain it better where they are seen."""
    paths = [str(path) for path in case.values("topology", "path").values()]
    linked = any(path.startswith("NV") for path in paths)
    return sign("possible", () if linked else case.p2p_loses())
