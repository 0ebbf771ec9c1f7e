"""The same slot over the hosts of a run: what its figure is in most of them. Pure.

A host that is warmer than the others as a whole shows no spread within itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from statistics import median

from hwcheck.judge.evidence import Known
from hwcheck.node.check import Check
from hwcheck.node.limits import FromSlot
from hwcheck.node.wire import Sample
from hwcheck.results.run_folder import HostRecord

LEAST_HOSTS = 5
"""Of fewer hosts two that are wrong would make the middle."""
MADS = 5.0
"""So many median absolute deviations are scatter: 3.4 standard deviations of a normal one."""

Slot = tuple[str, str, str, str]
"""Check, metric, board and subject (``gpu3``)."""


@dataclass(frozen=True)
class Slots:
    """The figures of all hosts by slot."""

    told: Mapping[Slot, list[float]] = field(default_factory=dict)
    _middles: dict[Slot, tuple[float, float]] = field(default_factory=dict, repr=False)

    def highest(self, slot: Slot, margin: float) -> float | None:
        """Return the highest figure that is usual, None where too few hosts tell one.

        That is the median over the hosts plus ``margin``, or plus what scatters.
        """
        values = self.told.get(slot, [])
        if len(values) < LEAST_HOSTS:
            return None
        if slot not in self._middles:  # every host of the run asks
            middle = median(values)
            self._middles[slot] = middle, median(abs(value - middle) for value in values)
        middle, scatter = self._middles[slot]
        return middle + max(margin, MADS * scatter)


def slot_of(check: str, sample: Sample, known: Known) -> Slot:
    """Return the slot of a sample. Hosts whose boards differ do not share it."""
    return check, sample.metric, known.boards.get(sample.subject, ""), sample.subject


def slotted(registry: Mapping[str, Check]) -> dict[str, set[str]]:
    """Return by check the names of the metrics that are compared over slots."""
    found: dict[str, set[str]] = {}
    for name, check in registry.items():
        for metric in check.metrics:
            if any(isinstance(limit.operand, FromSlot) for limit in metric.limits):
                found.setdefault(name, set()).add(metric.name)
    return found


def collect(
    told: dict[Slot, list[float]],
    record: HostRecord,
    compared: Mapping[str, Set[str]],
    known: Known,
) -> None:
    """Add what a host tells of the metrics that are compared over slots."""
    for check, sample in _compared(record, compared):
        if type(sample.value) in (int, float) and sample.subject in known.boards:
            told.setdefault(slot_of(check, sample, known), []).append(float(sample.value))


def _compared(record: HostRecord, compared: Mapping[str, Set[str]]) -> Iterator[tuple[str, Sample]]:
    for result in record.report.results if record.report else ():
        metrics = compared.get(result.check, ())
        for sample in result.samples if metrics else ():
            if sample.metric in metrics:
                yield result.check, sample
