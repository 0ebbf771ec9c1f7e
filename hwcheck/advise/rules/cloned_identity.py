"""Two GPUs say that they are one."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule

ONE = "have one identifier"


@rule(
    title="Boards carry one identifier: an infoROM was written with another board's content",
    follows="tools that choose GPUs by identifier choose the wrong one",
    fix="have the board replaced",
    confirm="nvidia-smi -L",
    source="NVML API Reference Guide, nvmlDeviceGetUUID: unique over all boards",
)
def cloned_identity(case: Case) -> Sign | None:
    """Look for it. NVML's identifiers have no doubles."""
    own = case.bad("serials", "gpus_of_this_uuid")
    doubts = [finding for finding in case.findings if not finding.check and ONE in finding.reason]
    return sign("certain", (*own, *doubts) if own else ())
