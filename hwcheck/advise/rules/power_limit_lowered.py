"""A GPU's power limit is below that of its board."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="A power limit is set below what the board is made for",
    follows="the GPU holds lower clocks, and the slowest GPU sets the pace of every collective",
    fix="declare the limit as hwcheck_power_limit_w when it is meant; otherwise set the "
    "board's default with nvidia-smi -pl, and look for what sets it at boot or a missing "
    "power cable",
    confirm="nvidia-smi -q -d POWER; systemctl list-units | grep -i nvidia",
    source="NVML API Reference Guide, nvmlDeviceGetPowerManagementDefaultLimit and "
    "nvmlDeviceGetEnforcedPowerLimit",
)
def power_limit_lowered(case: Case) -> Sign | None:
    """Look for it. Slower products on the same GPU follow from it."""
    own = case.bad("power_cap", "power_limit_percent", "power_limit_w")
    gpus = {finding.subject for finding in own}
    return sign("certain", (*own, *case.of(gpus, "sustained_tflops", "clocks_under_load")))
