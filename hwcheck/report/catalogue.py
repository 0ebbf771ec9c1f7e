"""The list of checks, for a terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from hwcheck.contract.check import Check, Metric
from hwcheck.fold import fold
from hwcheck.results.site_limits import SiteLimits, in_force
from hwcheck.text import line


def overview(checks: Sequence[Check], of_site: Collection[str] = ()) -> str:
    """Return one line for each check: its name, when it runs, and what it is about."""
    rows = [(check.id, _kind(check, of_site), _title(check)) for check in checks]
    wide = [max((len(row[column]) for row in rows), default=0) for column in (0, 1)]
    return "".join(f"{name:{wide[0]}}  {kind:{wide[1]}}  {title}\n" for name, kind, title in rows)


def catalogue_json(
    checks: Iterable[Check],
    hosts: Sequence[tuple[str, SiteLimits]] = (),
    of_site: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Return every check as records of JSON; ``hosts`` and ``of_site`` are as in ``catalogue``."""
    return [
        {
            "check": check.id,
            "doc": " ".join(check.doc.split("\n\n")[0].split()),
            "kind": _kind(check, of_site),
            "metrics": [
                {
                    "metric": metric.name,
                    "unit": metric.unit,
                    "meaning": metric.meaning,
                    "limits": [
                        {
                            "text": limit.text(),
                            "source": limit.source,
                            "confidence": limit.confidence,
                        }
                        for limit in metric.limits
                    ],
                    "site_limits": [
                        {"text": text, "source": source, "hosts": list(names)}
                        for name, text, source, names in in_force(hosts, check)
                        if name == metric.name
                    ],
                }
                for metric in check.metrics
            ],
            "remedy": asdict(check.remedy),
        }
        for check in checks
    ]


def catalogue(
    checks: Iterable[Check],
    hosts: Sequence[tuple[str, SiteLimits]] = (),
    of_site: Collection[str] = (),
) -> Group:
    """Return every check: what it measures, what that is held against, and by whose word.

    ``hosts`` are names with the limits that their site set, ``of_site`` the ids of its own checks.
    """
    return Group(*(part for check in checks for part in _check(check, hosts, of_site)))


def _check(
    check: Check, hosts: Sequence[tuple[str, SiteLimits]], of_site: Collection[str]
) -> Iterator[Text | Padding]:
    yield Text.assemble((check.id, "bold"), f"  ({_kind(check, of_site)})")
    yield Padding(_title(check), (0, 0, 0, 2))
    site_limits = list(in_force(hosts, check))
    for metric in check.metrics:
        yield from _metric(metric)
        for name, text, source, names in site_limits:
            if name == metric.name:
                text = f"on {fold(names)}: {text}; source: {line(source, 500)} (inventory)"
                yield Padding(Text(text, style="bold"), (0, 0, 0, 6))
    yield Text()


def _kind(check: Check, of_site: Collection[str]) -> str:
    kind = "loads the node" if check.load else "after the load" if check.after_load else "idle"
    whose = ", of this site" if check.id in of_site else ""
    return f"{kind}{', GPU' if check.gpu else ''}{whose}"


def _title(check: Check) -> str:
    return check.doc.partition("\n\n")[0].replace("\n", " ")


def _metric(metric: Metric) -> Iterator[Padding]:
    unit = f" [{metric.unit}]" if metric.unit else ""
    yield Padding(Text(f"{metric.name}{unit}: {metric.meaning}"), (0, 0, 0, 4))
    for limit in metric.limits:
        text = f"{limit.text()}; source: {limit.source} ({limit.confidence})"
        yield Padding(Text(text, style="dim"), (0, 0, 0, 6))
    if not metric.limits:
        yield Padding(Text("recorded, no limit", style="dim"), (0, 0, 0, 6))
