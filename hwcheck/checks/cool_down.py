"""Every GPU cools down once the work has ended."""

from __future__ import annotations

from statistics import median
from typing import Iterator, List

from hwcheck.checks.shared.load_summary import Loaded, per_loaded_board
from hwcheck.contract.check import BY_RUN, CouldNotMeasure, Metric, Remedy, check
from hwcheck.contract.limits import AtLeast, FromSample
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import NO_VGPU
from hwcheck.node.node import Node

AROUND_S = 2.0
LEAST_RISE_C = 6
LEAST_COOLING_S = 5.0


@check(
    metrics=[
        Metric("temperature_rise_c", "C", "from before the load to its end", required=True),
        Metric(
            "temperature_drop_c",
            "C",
            "from the end of the load to the end of the cool-down",
            (
                AtLeast(
                    "derived: the chip holds little heat and loses a good part of its rise within "
                    "seconds once the power is gone; one that keeps nine tenths of it still works "
                    "or has no way to lose heat",
                    fail=0.1,
                    warn=0.2,
                    of=FromSample("temperature_rise_c"),
                    confidence="derived",
                ),
            ),
            required=True,
            low_is_bad=True,
        ),
        Metric(
            "cool_down_s",
            "s",
            "how long the cool-down was watched",
            required=True,
            varies=BY_RUN,
        ),
        Metric("power_after_w", "W", "power at the end of the cool-down"),
    ],
    remedy=Remedy(
        cause="a process that still works on the GPU, a fan or pump that stops with the load, or a "
        "heat sink without contact",
        fix="see whether the power fell: if not, find what still runs there; if so, look at fans, "
        "coolant flow and the board's mounting",
        command="nvidia-smi --query-gpu=index,temperature.gpu,power.draw,fan.speed --format=csv; "
        "nvidia-smi pmon -c 1",
    ),
    load=True,
    per_gpu=True,
    optional=NO_VGPU,
    group="heat",
)
def cool_down(node: Node) -> Iterator[Sample]:
    """Watch whether the temperature of each GPU falls once the load has ended.

    Heat that does not leave after the work is heat that did not leave during it: the next job
    begins on a warm chip and throttles earlier. A GPU that hardly warmed up says nothing here.
    """
    yield from per_loaded_board(node, _of_gpu)


def _of_gpu(loaded: Loaded) -> Iterator[Sample]:
    run, subject = loaded.run, loaded.subject
    watched_s = run.cool_end_s - run.load_end_s
    if watched_s < LEAST_COOLING_S:
        raise CouldNotMeasure(
            "%s: the cool-down was watched for %.1f s only" % (subject, watched_s)
        )
    before = _middle(loaded, "temperature_c", float("-inf"), 0.0)
    hot = _middle(loaded, "temperature_c", run.load_end_s - AROUND_S, run.load_end_s)
    after = _middle(loaded, "temperature_c", run.cool_end_s - AROUND_S, run.cool_end_s)
    yield Sample("cool_down_s", round(watched_s, 1), "s", subject)
    if loaded.has("power_w"):
        power_w = _middle(loaded, "power_w", run.cool_end_s - AROUND_S, run.cool_end_s)
        yield Sample("power_after_w", round(power_w, 1), "W", subject)
    rise = round(hot - before, 1)
    yield Sample("temperature_rise_c", rise, "C", subject)
    if rise < LEAST_RISE_C:
        raise CouldNotMeasure("%s: it warmed by %g C only" % (subject, rise))
    yield Sample("temperature_drop_c", round(hot - after, 1), "C", subject)


def _middle(loaded: Loaded, quantity: str, begin_s: float, end_s: float) -> float:
    values: List[float] = [value for _, value in loaded.points(quantity, begin_s, end_s)]
    if not values:
        text = "%s: %s: not told from %g to %g s" % (loaded.subject, quantity, begin_s, end_s)
        raise CouldNotMeasure(text)
    return median(values)
