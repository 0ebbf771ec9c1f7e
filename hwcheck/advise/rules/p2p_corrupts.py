"""P2P copies arrive wrong, and nothing on the way explains it."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule

WRONG = ("wrong_elements", "p2p_wrong_elements")


@rule(
    title="The driver offers P2P on a path that damages data",
    follows="results are wrong and nothing reports an error: worse than a node that is slow",
    fix="keep jobs off the node; set NCCL_P2P_DISABLE=1 (NCCL_P2P_LEVEL=NVL where bridged "
    "pairs are clean) until another driver is proven by the same test; unlike boards, or "
    "a display on one of them, make it likelier",
    confirm="nvidia-smi topo -p2p r; nvidia-smi --query-gpu=name,driver_version,display_active "
    "--format=csv; sudo dmesg | grep -iE 'xid|aer'",
    source="NVIDIA/open-gpu-kernel-modules issue 1257 (two RTX 6000 Ada), NVIDIA/nccl-tests "
    "issue 131, aikitoria/open-gpu-kernel-modules issue 11",
)
def p2p_corrupts(case: Case) -> Sign | None:
    """Look for it. ACS, the IOMMU or a virtual machine explain it better where they are seen."""
    wrong = tuple(f for f in case.p2p_trouble() if f.metric in WRONG)
    return sign("possible", wrong)
