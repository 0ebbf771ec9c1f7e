"""Nothing in the hardware holds the clocks of an idle GPU down."""

from __future__ import annotations

import time
from typing import Iterator, List

from hwcheck.contract.check import BY_USE, Metric, Remedy, check
from hwcheck.contract.limits import Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import where_supported
from hwcheck.node.node import Gpu, Node

REASONS = "NVML API Reference Guide, NvmlClocksEventReasons: "

FAULTS = ("hw_slowdown", "hw_thermal_slowdown", "hw_power_brake")

CONFIRMATIONS = 4
INTERVAL_S = 0.05
"""NVML may show a hardware slowdown for the moment of a clock change: it must last."""


@check(
    metrics=[
        Metric(
            "hw_slowdown",
            "",
            "whether hardware holds the core clocks at half or less, for any cause",
            (Equal(False, source=REASONS + "nvmlClocksThrottleReasonHwSlowdown"),),
            required=True,
        ),
        Metric(
            "hw_thermal_slowdown",
            "",
            "whether hardware does so because the GPU is too hot",
            (Equal(False, source=REASONS + "nvmlClocksThrottleReasonHwThermalSlowdown"),),
            required=True,
        ),
        Metric(
            "hw_power_brake",
            "",
            "whether the system, often its power supply, orders it from outside",
            (Equal(False, source=REASONS + "nvmlClocksThrottleReasonHwPowerBrakeSlowdown"),),
            required=True,
        ),
        Metric(
            "sw_thermal_slowdown",
            "",
            "whether the driver lowers the clocks because the GPU or its memory is too hot",
            (
                Equal(
                    False,
                    source=REASONS + "nvmlClocksEventReasonSwThermalSlowdown",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
        Metric(
            "clock_event_reasons",
            "",
            "all that holds the clocks down now, or none",
            required=True,
            varies=BY_USE,
        ),
    ],
    remedy=Remedy(
        cause="power brake: a power supply that failed or is overloaded, or a board management "
        "controller that asserts it. thermal: cooling that failed",
        fix="power brake: look at the power supplies and the event log of the management "
        "controller. thermal: look at fans, coolant and the board's mounting",
        command="nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER && ipmitool sel elist",
    ),
    per_gpu=True,
    optional="GPUs that tell what holds their clocks down",
    group="power, clocks",
)
def throttle_reasons(node: Node) -> Iterator[Sample]:
    """Decode what holds the clocks down: hardware is a fault, the driver's own power cap is not.

    A GPU on the power brake runs at half its clocks or less, and every collective with it, while
    its name, memory and temperature look right. The driver's power cap and the drop of the clocks
    at idle are how GPUs are meant to work; they are recorded. A hardware reason counts when every
    one of several reads shows it.
    """
    missing = "no GPU of this node says what holds its clocks down"
    yield from where_supported(node, _reasons, missing)


def _reasons(gpu: Gpu) -> Iterator[Sample]:
    reasons = gpu.clock_event_reasons()
    if reasons is None:
        return
    lasting = _lasting(gpu, reasons)
    for name in FAULTS:
        yield Sample(name, name in lasting, "", gpu.subject)
    yield Sample("sw_thermal_slowdown", "sw_thermal_slowdown" in reasons, "", gpu.subject)
    yield Sample("clock_event_reasons", ", ".join(reasons) or "none", "", gpu.subject)


def _lasting(gpu: Gpu, reasons: List[str]) -> List[str]:
    lasting = [reason for reason in reasons if reason in FAULTS]
    for _ in range(CONFIRMATIONS):
        if not lasting:
            break
        time.sleep(INTERVAL_S)
        now = gpu.clock_event_reasons() or []
        lasting = [reason for reason in lasting if reason in now]
    return lasting
