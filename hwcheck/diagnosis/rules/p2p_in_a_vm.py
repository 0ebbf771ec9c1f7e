"""P2P in a virtual machine hangs or corrupts."""

from __future__ import annotations

from hwcheck.diagnosis.case import Case, sign
from hwcheck.diagnosis.records import Sign
from hwcheck.diagnosis.rule import rule


@rule(
    title="The virtual machine does not carry P2P between its GPUs",
    follows="collectives hang or fail as soon as GPUs reach each other; nothing inside the guest "
    "mends it",
    fix="ask whoever runs the hypervisor for access control with ATS, or for GPUs that share "
    "a baseboard; until then NCCL_P2P_DISABLE=1 in the guest",
    confirm="systemd-detect-virt; nvidia-smi topo -p2p r; nvidia-smi topo -m",
    source="NCCL User Guide, Troubleshooting (virtual machines need ACS, use ATS); NVIDIA/nccl "
    "issues 175, 182, 417",
)
def p2p_in_a_vm(case: Case) -> Sign | None:
    """Look for it. A guest sees none of the bridges, so only its legs tell."""
    trouble = case.p2p_trouble() if case.vm else ()
    return sign("likely", trouble, [f"virtualization: {case.vm}"])
