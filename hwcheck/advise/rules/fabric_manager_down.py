"""GPUs behind NVSwitches have not joined the fabric."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule

LINKS = ("nvlink_state", "nvlink_errors")


@rule(
    title="The fabric manager does not run, or did not bring the NVSwitch fabric up",
    follows="CUDA does not start on these GPUs, or collectives go over PCIe at a tenth of the "
    "bandwidth",
    fix="install the fabric manager in the driver's version, start it, and read its log for a "
    "link or switch that failed",
    confirm="systemctl status nvidia-fabricmanager; journalctl -u nvidia-fabricmanager -n 50; "
    "nvidia-smi -q | grep -A12 Fabric",
    source="NVIDIA Fabric Manager User Guide; pytorch/pytorch issue 177472 (multicast binding "
    "fails)",
)
def fabric_manager_down(case: Case) -> Sign | None:
    """Look for it. Links that never came up are a symptom of it."""
    own = case.bad("nvswitch_fabric", "fabric_manager", "fabric_state", "fabric_status")
    if case.vm or not own:
        return None
    waiting = {finding.subject for finding in own}
    links = case.of(waiting, "nvlink_state", "nvlink_errors")
    blinded = [
        finding
        for finding in case.findings
        if finding.check in LINKS and finding.outcome == "inconclusive"
    ]
    return sign("certain", (*own, *links, *blinded, *case.slow()))
