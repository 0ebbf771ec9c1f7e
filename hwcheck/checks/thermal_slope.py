"""No GPU heats up faster than its neighbors when the load begins."""

from __future__ import annotations

from typing import Iterator

from hwcheck.checks.shared.load_summary import LEAST_SAMPLES, FigureOfKind, Loaded, among_peers
from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check
from hwcheck.contract.limits import AtMost
from hwcheck.contract.wire import Sample
from hwcheck.node.load.settle import slope
from hwcheck.node.node import Node

FIRST_S = 5.0
LEAST_SLOPE = 0.5
"""NVML counts whole degrees: over 5 s a flatter slope cannot be told from this one."""


@check(
    metrics=[
        Metric(
            "thermal_slope",
            "C/s",
            "rise of the core temperature in the first 5 s of the load",
            required=True,
        ),
        Metric(
            "slope_over_peers",
            "x",
            "the rise over the median of the node's other GPUs of its kind, which is taken for "
            "0.5 C/s at least",
            (
                AtMost(
                    "derived: at first only what the chip touches takes up heat, so like boards "
                    "with the same power rise alike, whatever the air does; whole degrees and the "
                    "moment of the begin make up to a third of it over 5 s",
                    warn=1.6,
                    fail=2.5,
                    confidence="derived",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="a heat sink or cold plate with poor contact to the chip: a loose screw, a dried or "
        "missing thermal interface",
        fix="take the board out and look at mounting and thermal interface; air and fans act later "
        "and are not the cause",
        command="nvidia-smi --query-gpu=index,temperature.gpu,power.draw --format=csv -l 1",
    ),
    load=True,
    per_gpu=True,
    optional="two GPUs of one kind",
    group="heat",
)
def thermal_slope(node: Node) -> Iterator[Sample]:
    """Compare how steeply the temperature of each GPU rises in the first seconds of the load.

    A poor contact between chip and heat sink shows at once, long before a short load gets hot: the
    chip alone has to hold the heat. Afterwards the steady temperature tells of air and coolant.
    Only GPUs of one kind are compared, since no figure holds for all.
    """
    yield from among_peers(node, _of_gpu, "thermal_slope", _compare)


def _of_gpu(loaded: Loaded) -> Iterator[Sample]:
    first = loaded.points("temperature_c", 0.0, min(FIRST_S, loaded.run.load_end_s))
    if len(first) < LEAST_SAMPLES:
        text = "%s: temperature: told %d times in the first %g s, %d are needed"
        raise CouldNotMeasure(text % (loaded.subject, len(first), FIRST_S, LEAST_SAMPLES))
    yield Sample("thermal_slope", round(slope(first), 2), "C/s", loaded.subject)


def _compare(slope: FigureOfKind, of_peers: float) -> Sample:
    ratio = max(slope.value, 0.0) / max(of_peers, LEAST_SLOPE)
    return Sample("slope_over_peers", round(ratio, 2), "x", slope.subject)
