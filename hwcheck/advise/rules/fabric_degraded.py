"""The fabric does without some of its links."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The NVSwitch fabric runs on fewer links than it has",
    follows="collectives over these GPUs reach less than the links promise, and one failure more "
    "may stop them",
    fix="find the link or switch that failed in the fabric manager's log, plan its repair, "
    "and keep the largest jobs elsewhere",
    confirm="nvidia-smi -q | grep -A16 Fabric; journalctl -u nvidia-fabricmanager -n 50",
    source="NVML API Reference Guide, Fabric definitions, "
    "NVML_GPU_FABRIC_HEALTH_MASK_DEGRADED_BW and _RECOVERY",
)
def fabric_degraded(case: Case) -> Sign | None:
    """Look for it. NVML says so itself."""
    return sign("certain", case.bad("nvswitch_fabric", "fabric_degraded"))
