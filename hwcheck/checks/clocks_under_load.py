"""Every GPU runs at the clocks that it was set to, as far as power allows."""

from __future__ import annotations

from statistics import median
from typing import Iterator, List, Optional

from hwcheck.checks.shared.load_summary import (
    LEAST_SAMPLES,
    Loaded,
    peers_metric,
    percent,
    with_peers,
)
from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check
from hwcheck.contract.limits import AtLeast, FromSample
from hwcheck.contract.load_run import SW_POWER_CAP
from hwcheck.contract.quantities import Clocks
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import NO_VGPU
from hwcheck.node.node import Node

APPLICATION = "NVML API Reference Guide, nvmlDeviceGetApplicationsClock"


APPLICATION_SM_CLOCK_MHZ = Metric(
    "application_sm_clock_mhz",
    "MHz",
    "core clock that applications get",
    of_some="of a GPU that the driver's power cap leaves alone for a while",
)


@check(
    metrics=[
        Metric(
            "sm_clock_mhz",
            "MHz",
            "median in the steady part of the load",
            required=True,
            drawn_as="SM clock under load",
        ),
        Metric(
            "uncapped_sm_clock_mhz",
            "MHz",
            "the same over the samples in which the driver's power cap did not hold it down; not "
            "sent where it always did",
            (
                AtLeast(
                    APPLICATION + ": what applications get unless power or heat say otherwise. "
                    "derived: a board may give less than its highest clock when all cores work; "
                    "hardware that slows down halves it",
                    fail=0.55,
                    warn=0.75,
                    of=FromSample("application_sm_clock_mhz"),
                    confidence="derived",
                ),
            ),
            of_some="of a GPU that the driver's power cap leaves alone for a while",
        ),
        APPLICATION_SM_CLOCK_MHZ,
        Metric(
            "memory_clock_mhz",
            "MHz",
            "median over the load",
        ),
        Metric(
            "memory_clock_percent",
            "%",
            "that as a share of the memory clock that applications get",
            (
                AtLeast(
                    APPLICATION + ": memory is not slowed down for power on data center boards; "
                    "with a compute context boards for desktops give up to 10 % less",
                    fail=70,
                    warn=88,
                    confidence="derived",
                ),
            ),
        ),
        peers_metric(
            "sm_clock_percent_of_peers",
            "core clock in the steady part",
            "derived: at one power limit chips differ by some 5 % in the clock that it allows; 8 % "
            "is more than that, 15 % three times as much",
            warn=92,
            fail=85,
        ),
    ],
    remedy=Remedy(
        cause="clocks that were locked or lowered by hand, heat, a power limit that is lower than "
        "the others', or a power supply that brakes the board",
        fix="see throttle_under_load and power_under_load for what holds the clock; reset clocks "
        "that were locked (nvidia-smi -rgc, -rac) where nobody wants them",
        command="nvidia-smi -q -d CLOCK,PERFORMANCE",
    ),
    load=True,
    per_gpu=True,
    optional=NO_VGPU,
    group="power, clocks",
    follows=("gpu_count", "mig", "virtualization"),
)
def clocks_under_load(node: Node) -> Iterator[Sample]:
    """Compare the clocks of each GPU at work with what it was set to and with its neighbors.

    A GPU whose clock is low computes slowly, and every GPU of the job waits for it. The driver
    lowers the core clock of most boards to stay within the power limit, which is how they are
    meant to work; only the rest of the time is held against the clock that was set. A board that
    tells no application clock is held against its neighbors.
    """
    yield from with_peers(node, _of_gpu, "sm_clock_mhz", percent("sm_clock_percent_of_peers"))


def _of_gpu(loaded: Loaded) -> Iterator[Sample]:
    subject, clock = loaded.subject, median(loaded.steady("sm_clock_mhz"))
    yield Sample("sm_clock_mhz", round(clock), "MHz", subject)
    try:
        application = loaded.gpu.application_clocks()
    except CouldNotMeasure:
        application = None  # a board or driver without them: the neighbors are the measure
    uncapped = _uncapped(loaded)
    if application and len(uncapped) >= LEAST_SAMPLES:
        yield Sample("uncapped_sm_clock_mhz", round(median(uncapped)), "MHz", subject)
        yield Sample("application_sm_clock_mhz", application.graphics_mhz, "MHz", subject)
    if loaded.has("memory_clock_mhz"):
        yield from _memory(loaded, application)


def _memory(loaded: Loaded, application: Optional[Clocks]) -> Iterator[Sample]:
    clock = median(loaded.under_load("memory_clock_mhz"))  # it is there from the first moment
    yield Sample("memory_clock_mhz", round(clock), "MHz", loaded.subject)
    if application:
        share = round(100.0 * clock / application.memory_mhz, 1)
        yield Sample("memory_clock_percent", share, "%", loaded.subject)


def _uncapped(loaded: Loaded) -> List[float]:
    """Return the core clocks of the steady part without the driver's power cap."""
    run = loaded.run
    begin_s = run.load_end_s / 2
    bits = dict(loaded.points("clock_events", begin_s, run.load_end_s))
    clocks = loaded.points("sm_clock_mhz", begin_s, run.load_end_s)
    return [clock for at_s, clock in clocks if at_s in bits and not int(bits[at_s]) & SW_POWER_CAP]
