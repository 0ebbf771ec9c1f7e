"""The samples of one answer as readings of its check's metrics: which values can be any.

A node says what it likes. A temperature of -300 C is below every limit and no reading.
"""

from __future__ import annotations

from collections.abc import Mapping

from hwcheck.contract import reasons
from hwcheck.contract.check import Check, Metric
from hwcheck.contract.limits import AbovePeers
from hwcheck.contract.reasons import NONE, Reason
from hwcheck.contract.wire import CheckResult, Sample, Value
from hwcheck.judge.units import UNITS

DOUBT_CHARACTERS = 200


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
    unit = UNITS[metric.unit]
    if not unit.lowest <= value <= unit.highest:
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
