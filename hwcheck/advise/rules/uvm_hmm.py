"""The driver migrates ordinary memory while P2P hangs."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="P2P hangs while the driver's heterogeneous memory management (UVM HMM) is on",
    follows="copies between GPUs lock up until the node is rebooted",
    fix="try 'options nvidia_uvm uvm_disable_hmm=1' in /etc/modprobe.d, reload the module, and "
    "run the same test again; keep it only where that mends it",
    confirm="cat /sys/module/nvidia_uvm/parameters/uvm_disable_hmm",
    source="local-inference-lab/rtx6kpro, optimization/nccl-tuning.md; it is on by default, so it "
    "is named where nothing better is known",
)
def uvm_hmm(case: Case) -> Sign | None:
    """Look for it. ACS, the IOMMU or a virtual machine explain a hang better."""
    if case.value("p2p_status", "uvm_hmm") is not True:
        return None
    if case.vm or case.bad("pcie_acs") or case.bad("iommu", "translated"):
        return None
    hangs = [f for f in case.p2p_trouble() if f.metric in ("leg_state", "p2p_state")]
    stuck = [finding for finding in hangs if finding.value == "hang"]
    return sign("possible", stuck, ["p2p_status: uvm_hmm yes"], stands=True)
