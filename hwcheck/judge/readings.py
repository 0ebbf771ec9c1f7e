"""The samples of one answer as readings of its check's metrics, and what they are held against."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, lru_cache

from hwcheck.judge.evidence import Known
from hwcheck.judge.fleet import Fleet, kind_of
from hwcheck.judge.models import model_of
from hwcheck.judge.plausible import implausible
from hwcheck.judge.records import Finding
from hwcheck.judge.slots import slot_of
from hwcheck.node.check import Check, Metric
from hwcheck.node.limits import (
    Equal,
    FromFleet,
    FromInventory,
    FromModel,
    FromSample,
    FromSlot,
    Limit,
    Operand,
)
from hwcheck.node.wire import CheckResult, Sample, Value

DOUBT_CHARACTERS = 200


class Readings:
    """What of an answer is a reading, and for the rest why it is none.

    ``held`` are the readings whose metric has a limit; ``limits`` has these by metric, each with
    where its reference comes from. ``doubts`` are subjects and reasons.
    """

    def __init__(self, check: Check, result: CheckResult) -> None:
        self.check = check
        self.samples: list[Sample] = []
        self.held: list[tuple[Metric, Sample]] = []
        self.doubts: list[tuple[str, str]] = []
        self._by_metric: dict[str, dict[str, Value]] = {}
        metrics = {metric.name: metric for metric in check.metrics}
        self.limits = {
            metric.name: tuple((limit, limit.operand) for limit in metric.limits)
            for metric in check.metrics
        }
        for sample in result.samples:
            metric = metrics.get(sample.metric)
            if metric is None:
                named = f"{sample.metric} is not a metric of this check"
                self.doubts.append((sample.subject, named[:DOUBT_CHARACTERS]))
                continue
            doubt = implausible(metric, sample)
            if doubt:
                self.doubts.append((sample.subject, doubt[:DOUBT_CHARACTERS]))
                continue
            self.samples.append(sample)
            if metric.limits:
                self.held.append((metric, sample))

    def by_subject(self, metric: str) -> Mapping[str, Value]:
        """Return the values of a metric by their subjects."""
        if not self._by_metric:
            for sample in self.samples:
                self._by_metric.setdefault(sample.metric, {})[sample.subject] = sample.value
        return self._by_metric.get(metric, {})


def references(
    readings: Readings, metric: Metric, sample: Sample, known: Known, fleet: Fleet
) -> Iterator[tuple[Limit, Value | None]]:
    """Yield the limits that apply to a sample, each with its reference (None: there is none)."""
    limits = readings.limits[metric.name]
    for limit, operand in limits:
        if operand is None:
            yield limit, None
        elif isinstance(operand, FromInventory):
            if operand.name in known.expect:
                yield limit, known.expect[operand.name]
        elif isinstance(operand, FromFleet):
            told = readings.by_subject(operand.alike) if operand.alike else {}
            kind = kind_of(sample, operand, told, known)
            most = fleet.reference(readings.check.id, metric.name, kind)
            if most is not None and not _declared(limits, known):
                golden = fleet.has_golden(readings.check.id, metric.name, kind)
                yield _of_golden(limit) if golden else limit, most
        elif isinstance(operand, FromSample):
            found = readings.by_subject(operand.metric)
            yield limit, found.get(sample.subject, found.get("node"))
        elif isinstance(operand, FromSlot):
            highest = fleet.slots.highest(slot_of(readings.check.id, sample, known), operand.margin)
            if highest is not None:
                yield limit, highest
        elif isinstance(operand, FromModel):
            facts = (known.models, known.devices, known.subsystems)
            model = model_of(*(of.get(sample.subject, "") for of in facts))
            reached = model.reached(operand.figure) if model else None
            if reached is not None or not operand.known_only:
                yield limit, reached


@cache
def _of_golden(limit: Limit) -> Limit:
    """Return the limit that names the golden host; ``Equal`` alone looks at the fleet."""
    assert isinstance(limit, Equal)
    assert isinstance(limit.to, FromFleet)
    return replace(limit, to=replace(limit.to, golden=True))


def _declared(limits: Iterable[tuple[Limit, Operand | None]], known: Known) -> bool:
    """Whether the inventory says what the metric should be."""
    return any(isinstance(o, FromInventory) and o.name in known.expect for _, o in limits)


def hold(
    host: str, check: str, metric: Metric, sample: Sample, limit: Limit, reference: Value | None
) -> Finding:
    """Return the finding of a sample held against one limit."""
    outcome, reason = "inconclusive", ""
    if limit.operand is not None and reference is None:
        reason = _no_reference(limit.operand, metric)
    else:
        try:
            outcome = limit.judge(sample.value, reference)
        except TypeError as error:
            reason = str(error)
    return Finding(
        host=host,
        check=check,
        outcome=outcome,
        metric=metric.name,
        subject=sample.subject,
        value=sample.value,
        unit=metric.unit,
        limit=_text(limit, None if reason else reference),
        source=limit.source,
        confidence=limit.confidence,
        reason=reason,
    )


@lru_cache(maxsize=65536, typed=True)
def _text(limit: Limit, reference: Value | None) -> str:
    """Return a limit in words; like hosts are held against the same few."""
    return limit.text(reference)


def _no_reference(operand: Operand, metric: Metric) -> str:
    if isinstance(operand, FromModel):
        return f"no {operand.figure} of a GPU of this model is known to hold {metric.name} against"
    return f"no {operand} to hold {metric.name} against"
