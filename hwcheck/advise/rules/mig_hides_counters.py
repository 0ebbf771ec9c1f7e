"""With MIG on the driver does not tell what a whole GPU would."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="MIG is on, and the driver keeps counters of the whole GPU back",
    follows="errors of this GPU cannot be seen from here while it is split",
    fix="take the GPU out of MIG mode to measure it, or leave what is named out with --skip",
    confirm="nvidia-smi --query-gpu=index,mig.mode.current --format=csv; nvidia-smi -q -d ECC",
    source="NVIDIA Multi-Instance GPU User Guide; NVML API Reference Guide, "
    "NVML_ERROR_NOT_SUPPORTED",
)
def mig_hides_counters(case: Case) -> Sign | None:
    """Look for it. The reasons say it themselves."""
    kept = tuple(
        finding
        for finding in case.findings
        if finding.outcome == "inconclusive" and "while MIG is on" in finding.reason
    )
    return sign("certain", kept)
