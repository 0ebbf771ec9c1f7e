"""The samples of one answer as readings of its check's metrics: which values can be any.

A node says what it likes. A temperature of -300 C is below every limit and no reading.
"""

from __future__ import annotations

from collections.abc import Mapping

from hwcheck.node import reasons
from hwcheck.node.check import Check, Metric
from hwcheck.node.limits import AbovePeers
from hwcheck.node.reasons import NONE, Reason
from hwcheck.node.wire import CheckResult, Sample, Value

DOUBT_CHARACTERS = 200

MANY = float(2**64)
"""Counters of NVML and the kernel have 64 bits."""

COUNTED = (
    *("CPUs", "GIDs", "GPUs", "banks", "bytes", "drives", "elements", "errors", "errors/h"),
    "parts",
    *(
        "events",
        "groups",
        "links",
        "nodes",
        "packets",
        "pages",
        "pairs",
        "ports",
        "processes",
        "products",
        "rows",
        "tests",
    ),
)

RANGES: dict[str, tuple[float, float]] = {
    **dict.fromkeys(COUNTED, (0.0, MANY)),
    "%": (0.0, 1000.0),
    "C": (-150.0, 250.0),  # margins to a threshold are in C as well
    "C/s": (-100.0, 100.0),
    "GB/s": (0.0, 1e6),
    "Gb/s": (0.0, 1e6),
    "GiB": (0.0, MANY / 2**30),
    "MHz": (0.0, 20_000.0),
    "MiB": (0.0, MANY / 2**20),
    "TFLOP/s": (0.0, 1e5),
    "W": (0.0, 1e6),
    "lanes": (1.0, 32.0),
    "s": (0.0, 1e7),
    "share": (0.0, 1e3),
    "x": (0.0, MANY),
}
"""Lowest and highest possible value by unit. A metric without a unit may be text or yes and no."""


def implausible(metric: Metric, sample: Sample) -> Reason:
    """Return why this value is no reading of this metric, or ``NONE``."""
    if sample.unit != metric.unit:
        text = f"{sample.metric} in {sample.unit or 'no unit'} is not a metric of this check"
        return Reason(reasons.UNKNOWN_METRIC, text)
    text = _impossible(metric, sample)
    return Reason(reasons.IMPLAUSIBLE, text) if text else NONE


def _impossible(metric: Metric, sample: Sample) -> str:
    if not metric.unit:
        # What is held against a limit has been read; an empty text has not.
        return f"{metric.name} is empty" if metric.limits and sample.value == "" else ""
    value = sample.value
    if isinstance(value, (bool, str)):
        return f"{metric.name}: {str(value)[:60]!r} is no number of {metric.unit}"
    low, high = RANGES[metric.unit]
    if not low <= value <= high:
        return f"{metric.name}: {value:g} {metric.unit} is no possible reading"
    return ""


class Readings:
    """What of an answer is a reading, and for the rest why it is none.

    ``held`` are the readings whose metric has a limit on one host; ``limits`` has these by metric,
    each with where its reference comes from. ``doubts`` are subjects and reasons.
    """

    def __init__(self, check: Check, result: CheckResult) -> None:
        self.check = check
        self.samples: list[Sample] = []
        self.held: list[tuple[Metric, Sample]] = []
        self.doubts: list[tuple[str, Reason]] = []
        self._by_metric: dict[str, dict[str, Value]] = {}
        metrics = {metric.name: metric for metric in check.metrics}
        self.limits = {
            metric.name: tuple(
                (limit, limit.operand)
                for limit in metric.limits
                if not isinstance(limit, AbovePeers)
            )
            for metric in check.metrics
        }
        for sample in result.samples:
            metric = metrics.get(sample.metric)
            if metric is None:
                named = f"{sample.metric} is not a metric of this check"
                doubt = Reason(reasons.UNKNOWN_METRIC, named[:DOUBT_CHARACTERS])
                self.doubts.append((sample.subject, doubt))
                continue
            doubt = implausible(metric, sample)
            if doubt:
                self.doubts.append((sample.subject, doubt.cut(DOUBT_CHARACTERS)))
                continue
            self.samples.append(sample)
            if self.limits[metric.name]:
                self.held.append((metric, sample))

    def by_subject(self, metric: str) -> Mapping[str, Value]:
        """Return the values of a metric by their subjects."""
        if not self._by_metric:
            for sample in self.samples:
                self._by_metric.setdefault(sample.metric, {})[sample.subject] = sample.value
        return self._by_metric.get(metric, {})
