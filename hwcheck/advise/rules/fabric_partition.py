"""The fabric is configured wrongly for a GPU."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="The NVSwitch fabric leaves GPUs out, or is configured wrongly for them",
    follows="these GPUs have no NVLink peers, so a job over all of them does not start",
    fix="correct partition, clique or firmware in the fabric's configuration, then reset the "
    "GPUs; read the fabric manager's log",
    confirm="nvidia-smi -q | grep -A16 Fabric; journalctl -u nvidia-fabricmanager -n 50",
    source="NVML API Reference Guide, Fabric definitions, "
    "NVML_GPU_FABRIC_HEALTH_MASK_INCORRECT_CONFIGURATION and ROUTE_UNHEALTHY",
)
def fabric_partition(case: Case) -> Sign | None:
    """Look for it. NVML names what is wrong."""
    return sign("certain", case.bad("nvswitch_fabric", "fabric_unhealthy"))
