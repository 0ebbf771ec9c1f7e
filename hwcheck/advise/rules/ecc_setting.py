"""ECC is set otherwise than on other GPUs."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="ECC is not set as on the other GPUs",
    follows="memory errors go unnoticed where it is off, and memory and bandwidth differ between "
    "GPUs",
    fix="set it as on all nodes of the cluster (nvidia-smi -e 1 or 0), then reboot",
    confirm="nvidia-smi --query-gpu=index,ecc.mode.current,ecc.mode.pending --format=csv",
    source="NVML API Reference Guide, nvmlDeviceGetEccMode and nvmlDeviceGetDefaultEccMode",
)
def ecc_setting(case: Case) -> Sign | None:
    """Look for it. Memory bandwidth that differs follows from it."""
    own = case.bad("ecc_mode")
    return sign("certain", (*own, *case.of({f.subject for f in own}, "hbm_bandwidth")))
