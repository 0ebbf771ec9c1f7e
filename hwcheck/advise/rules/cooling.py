"""GPUs are hotter than they should be."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule

THROTTLED = ("hw_thermal_slowdown", "sw_thermal_slowdown")


@rule(
    title="Cooling is short: a fan, an air path, coolant or the air that comes in",
    follows="GPUs slow themselves down under load, and their memory ages",
    fix="compare with the same slot of the neighbors; check fans, filters, blanks, cold "
    "plates and the inlet temperature",
    confirm="nvidia-smi -q -d TEMPERATURE,PERFORMANCE; ipmitool sdr type Fan; ipmitool sdr type "
    "Temperature",
    source="NVML API Reference Guide, nvmlDeviceGetTemperatureThreshold and "
    "nvmlClocksEventReasonHwThermalSlowdown",
)
def cooling(case: Case) -> Sign | None:
    """Look for it. A GPU at work is warm when it should be idle for another reason."""
    at_work = {gpu for gpu, n in case.values("stray_processes", "compute_processes").items() if n}
    own = (
        *case.bad("thermal_margin"),
        *case.bad("temperature_under_load"),
        *case.bad("thermal_spread"),
        *case.bad("cool_down"),
        *case.bad("throttle_reasons", *THROTTLED),
        *case.bad("throttle_under_load", *(f"{name}_percent" for name in THROTTLED)),
        *(f for f in case.bad("temperature_idle") if f.subject not in at_work),
    )
    gpus = {finding.subject for finding in own}
    slow = case.of(gpus, "clocks_under_load", "sustained_tflops", "power_under_load")
    return sign("likely", (*own, *slow))
