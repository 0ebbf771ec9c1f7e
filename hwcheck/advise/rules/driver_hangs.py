"""Calls into the driver do not return."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule

NO_ANSWER = "NVML did not answer within"
NAMELESS = "has no identifier"
LEAST_CHECKS = 3


@rule(
    title="The driver does not answer",
    follows="jobs and nvidia-smi hang on this node, and what asks the driver cannot be killed",
    fix="drain the node and reboot it; where it comes back after that, read the kernel log "
    "for what came before (Xid, a lost GPU) and update the driver",
    confirm='timeout 20 nvidia-smi; sudo dmesg -T | grep -iE "NVRM|Xid|blocked for more '
    'than" | tail -n 30',
    source="NVIDIA/nccl-tests issue 117 (nvidia-smi itself hangs until a reboot); NVIDIA "
    "XID Errors",
)
def driver_hangs(case: Case) -> Sign | None:
    """Look for it. One question may be lost; several without an answer are a driver that stands."""
    silent = tuple(
        finding
        for finding in case.findings
        if finding.outcome == "inconclusive"
        and (NO_ANSWER in finding.reason or NAMELESS in finding.reason)
    )
    unanswered = {finding.check for finding in silent if NO_ANSWER in finding.reason}
    return sign("likely", silent if len(unanswered) >= LEAST_CHECKS else ())
