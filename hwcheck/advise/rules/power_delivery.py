"""The supply makes GPUs brake."""

from __future__ import annotations

from hwcheck.advise.case import Case, sign
from hwcheck.advise.cause_records import Sign
from hwcheck.advise.rule import rule


@rule(
    title="Power delivery fails: the supply or its cables make GPUs brake",
    follows="clocks drop to a fraction while the brake holds, and every job on the node waits for "
    "that GPU",
    fix="look at the power supplies and the event log of the management controller; feed each "
    "connector of a board by a cable of its own; spread boards over the supplies",
    confirm="nvidia-smi -q -d PERFORMANCE; ipmitool sdr type 'Power Supply'; ipmitool sel list | "
    "tail",
    source="NVML API Reference Guide, nvmlClocksEventReasonHwPowerBrakeSlowdown; NVIDIA Xid "
    "catalog, Xid 54",
)
def power_delivery(case: Case) -> Sign | None:
    """Look for it. The brake is a wire from the supply, so there is no doubt about the side."""
    own = (
        *case.bad("throttle_reasons", "hw_power_brake"),
        *case.bad("throttle_under_load", "hw_power_brake_percent"),
        *case.bad("power_under_load", "power_delivery_percent"),
        *(finding for finding in case.bad("xid") if finding.subject.endswith("xid 54")),
    )
    gpus = {finding.subject for finding in own}
    braked = case.of(gpus, "throttle_reasons", "throttle_under_load", "power_under_load")
    slow = case.of(gpus, "clocks_under_load", "sustained_tflops", "power_state")
    return sign("certain", (*own, *braked, *slow))
