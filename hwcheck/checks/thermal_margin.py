"""Every GPU is well below the temperature at which it slows down, at work or not."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check
from hwcheck.contract.limits import AbovePeers, AtLeast, AtMost
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import NO_VGPU, of_boards
from hwcheck.node.node import Gpu, Node

THRESHOLDS = "NVML API Reference Guide, nvmlTemperatureThresholds_t: "
MARGIN = "fail: at its threshold the board slows down. warn, of our own: 5 C is what the air in a "
MARGIN += "row moves by within a day, so the threshold is reached without any change of load"
CLOSE_C = 5
WARM_WITHOUT_THRESHOLD_C = 80


@check(
    metrics=[
        Metric(
            "thermal_margin_c",
            "C",
            "slowdown threshold of the board less the core temperature now",
            (
                AtLeast(
                    "derived from %sNVML_TEMPERATURE_THRESHOLD_SLOWDOWN. %s" % (THRESHOLDS, MARGIN),
                    fail=1,
                    warn=CLOSE_C,
                    confidence="derived",
                ),
            ),
            low_is_bad=True,
        ),
        Metric(
            "memory_thermal_margin_c",
            "C",
            "memory threshold of the board less the memory temperature now",
            (
                AtLeast(
                    "derived from %sNVML_TEMPERATURE_THRESHOLD_MEM_MAX. %s" % (THRESHOLDS, MARGIN),
                    fail=1,
                    warn=CLOSE_C,
                    confidence="derived",
                ),
            ),
            low_is_bad=True,
        ),
        Metric(
            "temperature_without_threshold_c",
            "C",
            "core temperature of a board that gives no slowdown threshold",
            (
                AtMost(
                    "derived: slowdown thresholds that boards do give start at 82 C (nvidia-smi "
                    "-q, Tesla P100) and are 89 C and more on most; from 84 C a board that gives "
                    "none is taken to be at its own, from 80 C close to it",
                    warn=WARM_WITHOUT_THRESHOLD_C - 1,
                    fail=83,
                    confidence="derived",
                ),
            ),
            of_some="of a GPU that gives no threshold, which is named",
        ),
        Metric("temperature_slowdown_c", "C", "temperature at which the board slows down"),
        Metric("temperature_shutdown_c", "C", "temperature at which the board switches off"),
        Metric("memory_temperature_c", "C", "memory temperature now"),
        Metric(
            "fan_speed_percent",
            "%",
            "speed that the board intends for this fan",
            (
                AbovePeers(
                    "derived: fans of an idle board stand, or turn at 30 to 40 % for a while after "
                    "work; half of their speed more than on the other hosts was set, or is driven "
                    "by heat",
                    margin=50,
                ),
            ),
        ),
        Metric(
            "fan_speed_when_hot_percent",
            "%",
            "that speed on a GPU that is near its slowdown threshold",
            (
                AtLeast(
                    "derived from NVML API Reference Guide, nvmlDeviceGetTargetFanSpeed and "
                    "nvmlDeviceSetFanSpeed_v2: the driver adjusts fans to what the GPU needs, and "
                    "a speed set by hand that is too low can burn it; a fan that is told to stand "
                    "on a GPU this hot is not controlled",
                    fail=1,
                    confidence="derived",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="a failed fan or pump, a blocked air path, a heat sink without contact, or air that "
        "is too warm",
        fix="compare with the other GPUs of the node and the same slot of its neighbors; check "
        "fans, coolant flow and inlet temperature, then the board's mounting",
        command="nvidia-smi -q -d TEMPERATURE && ipmitool sdr type Fan",
    ),
    per_gpu=True,
    optional=NO_VGPU,
    group="heat",
)
def thermal_margin(node: Node) -> Iterator[Sample]:
    """Read how far each GPU and its memory are from the temperatures that the board allows.

    A GPU at its threshold loses half its clocks or more. The margin means the same on every
    model and under any load, unlike a temperature. Where a board gives no threshold its
    temperature is held against fixed figures. Fan speeds are what the board intends, not what the
    fans do: a blocked fan does not show. Many boards stop them at idle, fans of one board may be
    driven apart, and full speed harms nothing, so they are held against those of like hosts only,
    with much room; a fan that is told to stand while the GPU is about to slow down fails. The
    temperature of memory without a threshold is recorded: no figure holds for all kinds of memory.
    """
    yield from of_boards(node, _margins)


def _margins(gpu: Gpu) -> Iterator[Sample]:
    temperature = gpu.temperature_c()
    shutdown = gpu.temperature_shutdown_c()
    try:
        slowdown = gpu.temperature_slowdown_c()
    except CouldNotMeasure:
        hot = temperature >= WARM_WITHOUT_THRESHOLD_C
        yield Sample("temperature_without_threshold_c", temperature, "C", gpu.subject)
    else:
        hot = slowdown - temperature < CLOSE_C
        yield Sample("thermal_margin_c", slowdown - temperature, "C", gpu.subject)
        yield Sample("temperature_slowdown_c", slowdown, "C", gpu.subject)
    if shutdown is not None:
        yield Sample("temperature_shutdown_c", shutdown, "C", gpu.subject)
    yield from _memory(gpu)
    for fan, speed in enumerate(gpu.fan_speeds_percent()):
        subject = "%s fan%d" % (gpu.subject, fan)
        yield Sample("fan_speed_percent", speed, "%", subject)
        if hot:
            yield Sample("fan_speed_when_hot_percent", speed, "%", subject)


def _memory(gpu: Gpu) -> Iterator[Sample]:
    temperature = gpu.memory_temperature_c()
    if temperature is None:
        return
    yield Sample("memory_temperature_c", temperature, "C", gpu.subject)
    highest = gpu.memory_temperature_max_c()
    if highest is not None:
        yield Sample("memory_thermal_margin_c", highest - temperature, "C", gpu.subject)
