"""Nothing but the driver's power cap holds the clocks down while the GPUs work."""

from __future__ import annotations

from typing import Callable, Iterator

from hwcheck.checks.shared.load_summary import (
    LEAST_SAMPLES,
    Loaded,
    load_of,
    per_loaded_gpu,
    share_percent,
)
from hwcheck.contract.check import BY_RUN, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtMost
from hwcheck.contract.load_run import (
    HW_POWER_BRAKE,
    HW_SLOWDOWN,
    HW_THERMAL,
    SW_POWER_CAP,
    SW_THERMAL,
)
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

REASONS = "NVML API Reference Guide, NvmlClocksEventReasons: "
MOMENT = (
    ". derived: DCGM's field identifiers say that a clock change shows it too, for a moment: 1 %"
)

BITS = {
    "hw_thermal_slowdown_percent": HW_THERMAL,
    "hw_power_brake_percent": HW_POWER_BRAKE,
    "hw_slowdown_percent": HW_SLOWDOWN,
    "sw_thermal_slowdown_percent": SW_THERMAL,
    "sw_power_cap_percent": SW_POWER_CAP,
}
IN_COLLECTIVES = (HW_THERMAL, HW_POWER_BRAKE, SW_THERMAL)
"""What is read there too: the others are seen whenever the GPUs go from one size to the next."""


def _judged(name: str, meaning: str, reason: str, fail: float) -> Metric:
    limit = AtMost(REASONS + reason + MOMENT, warn=1, fail=fail, confidence="derived")
    where = "load, or of the collectives if more," if BITS[name] in IN_COLLECTIVES else "load"
    of = "share of the %s in which %s" % (where, meaning)
    return Metric(name, "%", of, (limit,), required=True)


@check(
    metrics=[
        _judged(
            "hw_thermal_slowdown_percent",
            "hardware halved the clocks or worse because the GPU was too hot",
            "nvmlClocksThrottleReasonHwThermalSlowdown",
            5,
        ),
        _judged(
            "hw_power_brake_percent",
            "the system, often its power supply, ordered that from outside",
            "nvmlClocksThrottleReasonHwPowerBrakeSlowdown",
            5,
        ),
        _judged(
            "hw_slowdown_percent",
            "hardware did so for any cause",
            "nvmlClocksThrottleReasonHwSlowdown",
            5,
        ),
        _judged(
            "sw_thermal_slowdown_percent",
            "the driver lowered the clocks because the GPU or its memory was too hot",
            "nvmlClocksEventReasonSwThermalSlowdown",
            10,
        ),
        Metric(
            "sw_power_cap_percent",
            "%",
            "share of the load in which the driver kept to the power limit, as it is meant to",
            required=True,
            varies=BY_RUN,
        ),
    ],
    remedy=Remedy(
        cause="thermal: a failed fan or pump, a blocked air path, a heat sink without contact, or "
        "warm air. power brake: a power supply that failed or is overloaded, or a management "
        "controller that asserts it",
        fix="thermal: look at fans, coolant, inlet temperature and the board's mounting. power "
        "brake: look at supplies, cables and the event log of the management controller",
        command="nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER && ipmitool sel elist",
    ),
    load=True,
    per_gpu=True,
    optional="GPUs that tell what holds their clocks down",
    group="power, clocks",
    follows=("gpu_count", "mig", "virtualization"),
)
def throttle_under_load(node: Node) -> Iterator[Sample]:
    """Read for how much of the load, and of the collectives, each reason held the clocks down.

    A GPU that throttles for a tenth of a second every second looks well in a glance and costs the
    whole job a tenth of its speed. Heat and the power brake are faults. The driver's own power cap
    is how boards hold their limit: it is recorded and never judged.
    """
    columns = load_of(node).series.columns
    if not any("clock_events" in quantities for quantities in columns.values()):
        raise NotApplicable("no GPU of this node says what holds its clocks down")
    yield from per_loaded_gpu(node, _of_gpu)


def _of_gpu(loaded: Loaded) -> Iterator[Sample]:
    events, together = loaded.bits(), loaded.bits_in_collectives()
    for metric, bit in BITS.items():
        share = share_percent(events, _holds(bit))
        if bit in IN_COLLECTIVES and sum(together.values()) >= LEAST_SAMPLES:
            share = max(share, share_percent(together, _holds(bit)))
        yield Sample(metric, share, "%", loaded.subject)


def _holds(bit: int) -> Callable[[int], bool]:
    return lambda bits: bool(bits & bit)
