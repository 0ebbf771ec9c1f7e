"""A leg with P2P does not end, and nothing on the way explains it."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="P2P is offered by the driver and does not work",
    follows="jobs on these GPUs hang, at the first collective or copy that takes the way",
    fix="set NCCL_P2P_DISABLE=1 (NCCL_P2P_LEVEL=NVL where bridged pairs are clean) for now; "
    "try another driver, look for unlike boards, a patched driver or a display on one of "
    "them, then test again",
    confirm="nvidia-smi topo -p2p r; nvidia-smi topo -m; cat /proc/driver/nvidia/version",
    source="NVIDIA/nccl-tests issue 117 (RTX 4090), dmlc/xgboost issue 11242 (driver 560), "
    "tinygrad/open-gpu-kernel-modules issues 44 and 45",
)
def p2p_hangs(case: Case) -> Sign | None:
    """Look for it. ACS, the IOMMU or a virtual machine explain it better where they are seen."""
    wrong = ("wrong_elements", "p2p_wrong_elements")
    trouble = tuple(f for f in case.p2p_trouble() if f.metric not in wrong)
    hangs = any(f.metric in ("leg_state", "p2p_state") for f in trouble)
    return sign("possible", trouble if hangs else ())
