"""Every GPU is cool while it has nothing to do."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import AtMost, FromSample
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import NO_VGPU, need_idle, of_boards
from hwcheck.node.node import Gpu, Node


@check(
    metrics=[
        Metric(
            "temperature_c",
            "C",
            "core temperature with no load",
            (
                AtMost(
                    # No vendor publishes an idle temperature. The shares are ours: an idle board
                    # draws a small part of its limit, so nearly the whole rise to its temperature
                    # under load is still to come.
                    "derived from the board's own slowdown threshold (NVML API Reference Guide, "
                    "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN): at 0.85 of 90 C only 14 C are left for "
                    "the whole rise from idle to full power, at 0.7 27 C",
                    warn=0.7,
                    fail=0.85,
                    of=FromSample("temperature_slowdown_c"),
                    confidence="derived",
                ),
            ),
            required=True,
            drawn_as="temperature at idle",
        ),
        Metric(
            "temperature_slowdown_c",
            "C",
            "temperature at which the board slows itself down",
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="a failed fan or pump, a blocked air path, a cold plate or heat sink without "
        "contact, or air that is too warm",
        fix="compare with the other GPUs of the node and the same slot of its neighbors; check "
        "fans, coolant flow and inlet temperature, then the board's mounting",
        command="nvidia-smi -q -d TEMPERATURE && ipmitool sdr type Fan",
    ),
    per_gpu=True,
    optional=NO_VGPU,
    group="heat",
)
def temperature_idle(node: Node) -> Iterator[Sample]:
    """Read each idle GPU's temperature and hold it against the board's slowdown threshold.

    A GPU that is hot before any work has no cooling to speak of: under load it slows down within
    seconds, and a job with it. Only a GPU that is idle can be judged, so one with a compute
    process or more than 5 % utilization gives no sample and is named as not measured.
    """
    yield from of_boards(node, _idle_temperature)


def _idle_temperature(gpu: Gpu) -> Iterator[Sample]:
    need_idle(gpu)
    slowdown = gpu.temperature_slowdown_c()
    yield Sample("temperature_c", gpu.temperature_c(), "C", gpu.subject)
    yield Sample("temperature_slowdown_c", slowdown, "C", gpu.subject)
