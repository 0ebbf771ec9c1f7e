"""The list of checks, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from hwcheck.node.check import Check, Metric


def catalogue(checks: Iterable[Check]) -> Group:
    """Return every check: what it measures, what that is held against, and by whose word."""
    return Group(*(part for check in checks for part in _check(check)))


def _check(check: Check) -> Iterator[Text | Padding]:
    kind = "loads the node" if check.load else "after the load" if check.after_load else "idle"
    yield Text.assemble((check.id, "bold"), f"  ({kind}{', GPU' if check.gpu else ''})")
    yield Padding(check.doc.partition("\n\n")[0].replace("\n", " "), (0, 0, 0, 2))
    for metric in check.metrics:
        yield from _metric(metric)
    yield Text()


def _metric(metric: Metric) -> Iterator[Padding]:
    unit = f" [{metric.unit}]" if metric.unit else ""
    yield Padding(Text(f"{metric.name}{unit}: {metric.meaning}"), (0, 0, 0, 4))
    for limit in metric.limits:
        text = f"{limit.text()}; source: {limit.source} ({limit.confidence})"
        yield Padding(Text(text, style="dim"), (0, 0, 0, 6))
    if not metric.limits:
        yield Padding(Text("recorded, no limit", style="dim"), (0, 0, 0, 6))
