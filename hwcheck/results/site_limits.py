"""Limits that a site sets in place of a check's own: ``hwcheck_limits`` in its inventory. Pure.

A limit is named ``check.metric``. A site's terms for it are a mapping of ``warn`` and ``fail``, the
borders as numbers, or ``ignore: true``, and of ``source``, by whose word.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from hwcheck.contract.check import Check, Metric
from hwcheck.contract.limits import AtLeast, AtMost, FromInventory, Limit

SiteLimits = Mapping[str, Mapping[str, Any]]
"""By ``check.metric``: any of ``warn``, ``fail``, ``ignore``, and always ``source``."""

ABSENT = "absent"
"""The metric of a finding that a host lacks what like hosts have: a site may ignore it, no more."""

MOST_SHARE = 10.0
"""A border that is a share of a reference is 0.95 and not 950."""


def applied(check: Check, limits: SiteLimits) -> Check:
    """Return the check with the site's borders in place of its own.

    A metric that is to be ignored keeps its limits: what they say of it is left out (``ignored``).
    Raises ValueError where a metric of the check has no border that could be set so.
    """
    if not any(key.startswith(f"{check.id}.") for key in limits):
        return check
    metrics = tuple(
        _changed(metric, limits.get(f"{check.id}.{metric.name}", {})) for metric in check.metrics
    )
    return replace(check, metrics=metrics)


def ignored(limits: SiteLimits) -> dict[str, str]:
    """Return what a site does not want judged, ``check.metric``, with its source."""
    return {key: str(terms["source"]) for key, terms in limits.items() if terms.get("ignore")}


def problem(key: str, terms: Mapping[str, Any], checks: Mapping[str, Check]) -> str:
    """Return why there is no such limit to be set, or an empty text."""
    names = [f"{check.id}.{metric.name}" for check in checks.values() for metric in check.metrics]
    check, _, metric = key.partition(".")
    if metric == ABSENT and check in checks:
        return "" if terms.get("ignore") else f"{key}: only ignore: true is possible"
    if key not in names:
        near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "`hwcheck checks` lists check and metric"
        return f"{key}: no such metric of a check; {hint}"
    try:
        applied(checks[check], {key: terms})
    except ValueError as error:
        return f"{key}: {error}"
    return ""


def in_force(
    hosts: Iterable[tuple[str, SiteLimits]], check: Check
) -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """Yield what sites set of a check: metric, limit in words, source, and the hosts it holds for.

    ``hosts`` are names with their limits. What this version of the check cannot take is left out:
    the judge says so.
    """
    alike: dict[tuple[str, str, str], list[str]] = {}
    for host, limits in hosts:
        for metric in check.metrics:
            terms = limits.get(f"{check.id}.{metric.name}")
            if terms is None:
                continue
            try:
                text = "not judged" if terms.get("ignore") else _with_borders(metric, terms).text()
            except ValueError:
                continue
            alike.setdefault((metric.name, text, str(terms["source"])), []).append(host)
    for (name, text, source), names in alike.items():
        yield name, text, source, tuple(names)


def _changed(metric: Metric, terms: Mapping[str, Any]) -> Metric:
    if not terms or terms.get("ignore"):
        return metric
    old, new = _border(metric), _with_borders(metric, terms)
    return replace(metric, limits=tuple(new if limit is old else limit for limit in metric.limits))


def _border(metric: Metric) -> AtLeast | AtMost:
    """Return the one limit of a metric whose borders are numbers that a site may set."""
    declared = [
        limit.operand for limit in metric.limits if isinstance(limit.operand, FromInventory)
    ]
    if declared:
        raise ValueError(f"it is held against {declared[0]}; declare that")
    borders = [limit for limit in metric.limits if isinstance(limit, (AtLeast, AtMost))]
    if not metric.limits:
        raise ValueError("it is recorded and has no limit")
    if not borders:
        text = ", ".join(limit.text() for limit in metric.limits)
        raise ValueError(f"its limit ({text}) has no border to set; only ignore: true is possible")
    if len(borders) > 1:
        raise ValueError("it has several limits; only ignore: true is possible")
    return borders[0]


def _with_borders(metric: Metric, terms: Mapping[str, Any]) -> Limit:
    old = _border(metric)
    borders = {name: float(terms[name]) for name in ("warn", "fail") if name in terms}
    for name, value in borders.items():
        if old.operand is not None and not 0 < value <= MOST_SHARE:
            raise ValueError(f"{name} {value:g}: it is a share of {old.operand}, such as 0.95")
    kept = [
        f"{name} {getattr(old, name):g}"
        for name in ("fail", "warn")
        if name not in borders and getattr(old, name) is not None
    ]
    source = str(terms["source"])
    if kept:
        source = f"{source}; the check's own {' and '.join(kept)}: {old.source}"
    new = replace(
        old,
        warn=borders.get("warn", old.warn),
        fail=borders.get("fail", old.fail),
        source=source,
        confidence="inventory",
    )
    if new.warn is not None and new.fail is not None and new.bad_side * (new.fail - new.warn) < 0:
        raise ValueError(f"nothing would warn: fail {new.fail:g} comes before warn {new.warn:g}")
    return new
