"""A host's last runs as small pictures beside its findings: outcomes as bars, figures as lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from hwcheck.advise.assessment import LastRuns
from hwcheck.judge.records import OUTCOMES, Finding
from hwcheck.report.words import OUTCOME_WORDS
from hwcheck.text import line, quantity

HEIGHTS = {"fail": 20, "inconclusive": 14, "warn": 9, "pass": 4}
"""A worse outcome has a higher bar: color alone says nothing on paper or to everybody."""
STEP, HEIGHT = 6, 20


@dataclass(frozen=True)
class Spark:
    """One figure over the runs: ``stretches`` without a gap as SVG points, ``end`` is the last."""

    name: str
    range: str
    stretches: tuple[str, ...]
    end: tuple[float, float]


@dataclass(frozen=True)
class LastRunsView:
    """The last runs and this one: outcome and height of each bar, the same in words, figures."""

    outcomes: tuple[tuple[str, int], ...]
    in_words: str
    lines: tuple[Spark, ...]


def last_runs_view(
    last: LastRuns | None, outcome: str, findings: Sequence[Finding]
) -> LastRunsView | None:
    """Return what there is to show; None without a run before this one."""
    if last is None or not last.outcomes:
        return None
    outcomes = [*(word for _, word in last.outcomes), outcome]
    amounts = Counter(outcomes)
    words = [f"{amounts[word]} {OUTCOME_WORDS[word]}" for word in OUTCOMES if amounts[word]]
    now = {(f.check, f.metric, f.subject): f for f in findings if f.outcome != "pass"}
    sparks = [
        _spark(now[key], [*values, float(now[key].value)])  # type: ignore[arg-type]
        for key, values in last.figures.items()
        if key in now and any(value is not None for value in values)
    ]
    return LastRunsView(
        tuple((word, HEIGHTS.get(word, HEIGHT)) for word in outcomes),
        ", ".join(words),
        tuple(sparks),
    )


def _spark(finding: Finding, values: Sequence[float | None]) -> Spark:
    numbers = [value for value in values if value is not None]
    low, high = min(numbers), max(numbers)
    room = (high - low) or 1.0
    stretches: list[list[tuple[float, float]]] = [[]]
    for place, value in enumerate(values):
        if value is None:
            stretches.append([])
            continue
        y = HEIGHT * (1 - (value - low) / room) if high > low else HEIGHT / 2
        stretches[-1].append((place * STEP, round(y, 1)))
    of = "" if finding.subject == "node" else f" of {line(finding.subject, 60)}"
    first, last = quantity(numbers[0], finding.unit), quantity(numbers[-1], finding.unit)
    lowest, highest = quantity(low, finding.unit), quantity(high, finding.unit)
    return Spark(
        f"{line(finding.check, 60)}: {line(finding.metric, 60)}{of}",
        f"{first} -> {last}; from {lowest} to {highest}",
        tuple(" ".join(f"{x:g},{y:g}" for x, y in part) for part in stretches if len(part) > 1),
        stretches[-1][-1],
    )
