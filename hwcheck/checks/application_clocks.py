"""Applications get the clocks that the board comes with."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import Equal, FromSample
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import where_supported
from hwcheck.node.node import Gpu, Node

SOURCE = (
    "NVML API Reference Guide, nvmlDeviceGetApplicationsClock against "
    "nvmlDeviceGetDefaultApplicationsClock"
)


@check(
    metrics=[
        Metric(
            "application_clock_graphics_mhz",
            "MHz",
            "core clock that applications get",
            (
                Equal(
                    FromSample("application_clock_graphics_default_mhz"),
                    source=SOURCE + " (NVML_CLOCK_GRAPHICS)",
                    otherwise="warn",
                ),
            ),
            required=True,
            setting=True,
        ),
        Metric(
            "application_clock_graphics_default_mhz",
            "MHz",
            "core clock that it comes with",
            required=True,
            setting=True,
        ),
        Metric(
            "application_clock_memory_mhz",
            "MHz",
            "memory clock that applications get",
            (
                Equal(
                    FromSample("application_clock_memory_default_mhz"),
                    source=SOURCE + " (NVML_CLOCK_MEM)",
                    otherwise="warn",
                ),
            ),
            required=True,
            setting=True,
        ),
        Metric(
            "application_clock_memory_default_mhz",
            "MHz",
            "memory clock that it comes with",
            required=True,
            setting=True,
        ),
    ],
    remedy=Remedy(
        cause="somebody set application clocks, and they stay until the driver is unloaded",
        fix="reset them with nvidia-smi -rac where they are not meant; otherwise set the same on "
        "every node",
        command="nvidia-smi -q -d CLOCK",
        role="gpu_settings",
    ),
    per_gpu=True,
    optional="clocks that an application can set",
    group="power, clocks",
    follows=("driver",),
)
def application_clocks(node: Node) -> Iterator[Sample]:
    """Compare the clocks that applications get with those that each board comes with.

    A GPU left at lower clocks after some experiment slows every job that it is part of, and
    nothing reports it. Consumer boards have no application clocks, and drivers since 2025 no
    longer tell them.
    """
    missing = "no GPU of this node has application clocks, or the driver no longer tells them"
    yield from where_supported(node, _clocks, missing)


def _clocks(gpu: Gpu) -> Iterator[Sample]:
    clocks = gpu.application_clocks()
    if clocks is None:
        return
    for name, mhz in (
        ("application_clock_graphics_mhz", clocks.graphics_mhz),
        ("application_clock_graphics_default_mhz", clocks.graphics_default_mhz),
        ("application_clock_memory_mhz", clocks.memory_mhz),
        ("application_clock_memory_default_mhz", clocks.memory_default_mhz),
    ):
        yield Sample(name, mhz, "MHz", gpu.subject)
