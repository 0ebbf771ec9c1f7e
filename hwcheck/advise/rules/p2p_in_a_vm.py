"""P2P in a virtual machine hangs or corrupts."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The virtual machine does not carry P2P between its GPUs",
    follows="collectives hang or fail as soon as GPUs reach each other, or go through the guest's "
    "memory; nothing inside the guest mends it",
    fix="ask whoever runs the hypervisor for access control with ATS, or for GPUs that share "
    "a baseboard; until then NCCL_P2P_DISABLE=1 in the guest",
    confirm="systemd-detect-virt; nvidia-smi topo -p2p r; nvidia-smi topo -m",
    source="NCCL User Guide, Troubleshooting (virtual machines need ACS, use ATS); NVIDIA/nccl "
    "issues 175, 182, 417",
)
def p2p_in_a_vm(case: Case) -> Sign | None:
    """Look for it. A guest sees none of the bridges: its legs tell, and what the driver refuses.

    Where P2P is refused data goes through the guest's memory, which may be slow for other reasons.
    """
    if not case.vm:
        return None
    trouble = case.p2p_trouble()
    codes = {str(code) for code in case.values("p2p_status", "pcie_read").values()} - {"OK"}
    slow = case.slow_over_pcie() if codes else ()
    also = [f"virtualization: {case.vm}"]
    also += [f"p2p_status: pcie_read {', '.join(sorted(codes))}"] if codes else []
    return sign("likely" if trouble else "possible", (*trouble, *slow), also)
