"""Clocks are held down by a setting."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="Clocks were set or locked lower than the board's default",
    follows="the GPU computes slower than its peers, and a collective waits for it",
    fix="reset them with nvidia-smi -rac, -rgc and -rmc where they are not meant; see what "
    "sets them at boot",
    confirm="nvidia-smi -q -d CLOCK,PERFORMANCE",
    source="NVML API Reference Guide, nvmlDeviceGetApplicationsClock and "
    "nvmlDeviceGetPerformanceState",
)
def clocks_held(case: Case) -> Sign | None:
    """Look for it. Heat and power have signs of their own, and rank by what these explain."""
    own = (
        *case.bad("application_clocks"),
        *case.bad("power_state"),
        *case.bad("clocks_under_load", "memory_clock_percent"),
    )
    gpus = {finding.subject for finding in own}
    slow = case.of(gpus, "clocks_under_load", "hbm_bandwidth", "sustained_tflops")
    return sign("likely", (*own, *slow))
