"""NVLinks are up and count errors."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="NVLinks have errors: a bad contact, or a link on its way to failing",
    follows="data is sent again, which costs bandwidth, until the link goes down under a job",
    fix="see whether the counts grow under load; reset the GPUs, reseat bridge or board, then "
    "have it replaced",
    confirm="nvidia-smi nvlink -e; sudo dmesg | grep -E 'Xid.*: 74|SXid'",
    source="NVML API Reference Guide, nvmlDeviceGetNvLinkErrorCounter; NVIDIA DCGM "
    "documentation, NVLink error limits",
)
def nvlink_failing(case: Case) -> Sign | None:
    """Look for it. A link that could not be trained again leaves no doubt."""
    own = case.bad("nvlink_errors")
    given_up = any(finding.metric == "nvlink_recovery_failed_errors" for finding in own)
    return sign("certain" if given_up else "likely", own)
