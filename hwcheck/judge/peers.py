"""Every measured number against the same slot of like hosts: robust outliers. Pure.

``fleet`` asks whether versions and settings are the same as on most hosts; this is for numbers.
How far they may lie apart goes by their unit (``units``), or by the metric where its check
says so (``AbovePeers``). It knows nothing of what is right, so it only ever warns; a fleet that is
bad as a whole is caught by limits and expectation. Where the inventory declares a golden host, the
others are held against its figures; but not where a check says how far: a golden host may run hot
too. What the inventory declares of a host is held against that alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median

from hwcheck.contract.check import Check, Metric
from hwcheck.contract.limits import AbovePeers, AtLeast, AtMost, FromFleet
from hwcheck.contract.reasons import remark
from hwcheck.contract.wire import CheckResult
from hwcheck.fold import fold
from hwcheck.judge.host_case import HostCase, NodeFacts
from hwcheck.judge.legs import largest
from hwcheck.judge.records import PEERS, Finding, complaints
from hwcheck.judge.units import UNITS, Tolerance
from hwcheck.text import number

SOURCE = (
    "median and median absolute deviation over like hosts (Leys et al., Journal of Experimental "
    "Social Psychology 49, 2013), with a floor for healthy scatter"
)


HOST_DECADES, MOST_HOST_DECADES = 1.0, 2.0
"""How far the median over the GPUs of a host may lie from that of like hosts: where these lie close
together, and where their uptimes and ages differ much. It scatters half as much as one GPU does:
1.25 / sqrt(8) for eight."""

LEAST_SLOTS = 3
"""The median of fewer is that of one."""

Answer = tuple[str, CheckResult, NodeFacts, set[str]]
"""A host, its answer of a check, its facts, and the subjects that are bad already."""

Slot = tuple[str, str, str]
"""Metric, what the hosts have alike, and subject."""


@dataclass(frozen=True)
class _Compared:
    """A metric that is compared, and which sides of the middle are bad.

    ``with_golden``: with golden hosts where there are any, otherwise always with all like hosts.
    """

    unit: str
    tolerance: Tolerance
    low: bool
    high: bool
    source: str = SOURCE
    with_golden: bool = True

    def is_outlier(self, value: float, middle: Middle) -> bool:
        """Whether a value is one on a side that is bad."""
        return middle.beyond(value, self.tolerance, low=self.low, high=self.high)


@dataclass(frozen=True)
class Middle:
    """The median over some hosts, and how far from it is usual; in decades where ``log``.

    ``golden`` names the hosts where they are golden ones.
    """

    hosts: int
    median: float
    width: float
    log: bool = False
    golden: tuple[str, ...] = ()

    def beyond(self, value: float, tolerance: Tolerance, *, low: bool, high: bool) -> bool:
        """Whether a value is an outlier on a side that is bad."""
        if self.log:
            return value >= tolerance.absolute and _log(value) - _log(self.median) > self.width
        away = value - self.median
        return (low and -away > self.width) or (high and away > self.width)


def middle_of(values: Iterable[float], tolerance: Tolerance) -> Middle | None:
    """Return the middle of some hosts' figures; None where they are too few."""
    figures = list(values)
    if len(figures) < tolerance.least_hosts:
        return None
    if tolerance.decades:
        logs = [_log(value) for value in figures]
        width = max(tolerance.decades, tolerance.mads * _scatter(logs))
        return Middle(len(figures), median(figures), min(width, tolerance.cap), log=True)
    center = median(figures)
    floor = max(tolerance.relative * abs(center), tolerance.absolute)
    width = max(floor, min(tolerance.cap, tolerance.mads * _scatter(figures)))
    return Middle(len(figures), center, width)


def golden_middle(figures: Mapping[str, float], tolerance: Tolerance) -> Middle | None:
    """Return what golden hosts have, by name, and how far from it is usual; None without one."""
    if not figures:
        return None
    center = median(figures.values())
    width = tolerance.decades or max(tolerance.relative * abs(center), tolerance.absolute)
    return Middle(len(figures), center, width, bool(tolerance.decades), tuple(sorted(figures)))


def judge_peers(
    hosts: Sequence[HostCase], findings: Sequence[Sequence[Finding]]
) -> Iterator[Finding]:
    """Yield a warning for each outlier among the numbers of all hosts.

    ``findings`` are those of each host so far: what a limit complains of is no measure, and is not
    said twice. That something of a check could not be measured says nothing of its other figures of
    the node.
    """
    bad = [complaints(_of_figures(of_host)) for of_host in findings]
    nothing: set[str] = set()
    for name, check in hosts[0].checks.items() if hosts else ():
        if check is not None:
            answers = (
                (host.name, host.answers[name], host.facts, subjects.get(name, nothing))
                for host, subjects in zip(hosts, bad, strict=True)
                if name in host.answers
            )
            yield from _outliers(check, answers)


def _of_figures(findings: Iterable[Finding]) -> Iterator[Finding]:
    return (each for each in findings if each.metric or each.subject != "node")


def _outliers(check: Check, answers: Iterable[Answer]) -> Iterator[Finding]:
    wanted = [metric for metric in check.metrics if _is_compared(metric)]
    metrics = {metric.name: _compared(metric) for metric in wanted}
    figures: dict[Slot, list[tuple[str, float]]] = {}
    golden: dict[Slot, dict[str, float]] = {}
    like: dict[tuple[object, ...], tuple[CheckResult, NodeFacts, list[tuple[Slot, float]]]] = {}
    for host, result, facts, bad in answers if metrics else ():
        same = () if result.legs else (id(facts), *map(id, result.samples))
        if not same or same not in like:
            # What is kept keeps its id. Samples that are alike are one object (``wire``).
            left = {m.name: metrics[m.name] for m in wanted if not facts.declares(m)}
            like[same] = result, facts, list(_figures(left, result, facts))
        for key, value in like[same][2]:
            if key[2] not in bad:
                figures.setdefault(key, []).append((host, value))
                if facts.golden:
                    golden.setdefault(key, {})[host] = value
    outliers: set[tuple[str, str, str]] = set()
    for key, of_hosts in figures.items():
        metric, alike, subject = key
        compared = metrics[metric]
        values = [value for _, value in of_hosts]
        outermost = {min(values), max(values)}  # where these are none, there is no outlier
        middle = None
        if len(outermost) > 1:
            of_golden = golden.get(key, {}) if compared.with_golden else {}
            middle = golden_middle(of_golden, compared.tolerance)
            middle = middle or middle_of(values, compared.tolerance)
        if middle and any(compared.is_outlier(value, middle) for value in outermost):
            for host, value in of_hosts:
                if compared.is_outlier(value, middle):
                    outliers.add((host, metric, alike))
                    yield _warning(host, check.id, metric, subject, compared, value, middle)
    yield from _outlying_hosts(check, metrics, figures, outliers)


def _outlying_hosts(
    check: Check,
    metrics: Mapping[str, _Compared],
    figures: Mapping[Slot, Sequence[tuple[str, float]]],
    outliers: set[tuple[str, str, str]],
) -> Iterator[Finding]:
    """Yield a warning for each host on which a counter rose everywhere, in no slot far enough."""
    counts: dict[tuple[str, str], dict[str, list[float]]] = {}
    for (metric, alike, _), of_hosts in figures.items():
        if metrics[metric].tolerance.decades:
            for host, value in of_hosts:
                counts.setdefault((metric, alike), {}).setdefault(host, []).append(value)
    for (metric, alike), by_host in counts.items():
        medians = {
            host: median(values) for host, values in by_host.items() if len(values) >= LEAST_SLOTS
        }
        compared = metrics[metric]
        tolerance = replace(compared.tolerance, decades=HOST_DECADES, cap=MOST_HOST_DECADES)
        middle = middle_of(medians.values(), tolerance)
        for host, value in medians.items() if middle else ():
            if (host, metric, alike) in outliers or not middle:
                continue  # said of its slots
            if compared.is_outlier(value, middle):
                yield _warning(host, check.id, metric, "node", compared, value, middle)


def _figures(
    metrics: Mapping[str, _Compared], result: CheckResult, facts: NodeFacts
) -> Iterator[tuple[Slot, float]]:
    """Yield what of an answer is compared."""
    models = f"{len(facts.models)} x {' and '.join(facts.kinds)}"
    legs = _legs(result) if result.legs else {}
    for sample in result.samples:
        metric, value = metrics.get(sample.metric), sample.value
        if metric is None or isinstance(value, (bool, str)) or sample.unit != metric.unit:
            continue
        of_leg = legs.get(sample.subject, "")
        if of_leg is not None and math.isfinite(value):
            alike = facts.boards.get(sample.subject, models) + of_leg
            yield (sample.metric, alike, sample.subject), float(value)


def _compared(metric: Metric) -> _Compared:
    for limit in metric.limits:
        if isinstance(limit, AbovePeers):
            tolerance = Tolerance(
                0.0, limit.margin, mads=limit.scatter, least_hosts=limit.least_hosts
            )
            return _Compared(metric.unit, tolerance, False, True, limit.source, with_golden=False)
    usual = UNITS[metric.unit].peers
    assert isinstance(usual, Tolerance), metric.unit
    low, high = bad_sides(metric, usual)
    return _Compared(metric.unit, usual, low, high)


def _is_compared(metric: Metric) -> bool:
    operands = [limit.operand for limit in metric.limits]
    unit = UNITS.get(metric.unit)
    return (
        unit is not None
        and isinstance(unit.peers, Tolerance)
        and not (metric.varies and metric.varies.hosts)
        and not any(isinstance(operand, FromFleet) for operand in operands)
    )


def bad_sides(metric: Metric, tolerance: Tolerance) -> tuple[bool, bool]:
    """Return whether low and high are bad: as the metric's limits say, or else its unit."""
    if tolerance.decades or (tolerance.low and tolerance.high):
        return tolerance.low, tolerance.high
    low = any(isinstance(limit, AtLeast) for limit in metric.limits)
    high = any(isinstance(limit, AtMost) for limit in metric.limits)
    if low or high:
        return low, high
    if metric.low_is_bad:
        return True, False
    return tolerance.low, tolerance.high


def _legs(result: CheckResult) -> dict[str, str | None]:
    """Return by a leg's subject what its figures go by; None where they are no measurement."""
    alike_by_leg: dict[str, str | None] = {}
    for leg in result.legs:
        size = largest(leg)
        counts = leg.state == "done" and not leg.exercise and size is not None
        alike = f" at {size.size_bytes} over {leg.ranks} by {leg.library}" if size else None
        alike_by_leg[f"leg {leg.leg}"] = alike if counts else None
    return alike_by_leg


def _warning(
    host: str,
    check: str,
    metric: str,
    subject: str,
    compared: _Compared,
    value: float,
    middle: Middle,
) -> Finding:
    unit = compared.unit
    usual = f"{number(middle.median)} {unit}".rstrip()
    side = "above" if value > middle.median else "below"
    if middle.log:
        width = f"{number(10**middle.width)} times that"
    else:
        width = f"{number(middle.width)} {unit} either way"
    like = f"its peers: {usual} in the middle of {middle.hosts}"
    whose = "like hosts have"
    where = "in the same slot" if subject != "node" or not middle.log else "in the median"
    if middle.golden:
        like = f"golden {fold(middle.golden)}: {usual}"
        whose = f"golden {fold(middle.golden)} has"
    return Finding(
        host=host,
        check=check,
        outcome="warn",
        metric=metric,
        subject=subject,
        value=value,
        unit=unit,
        limit=f"warn unless like {like}, {width}",
        source=compared.source,
        confidence="derived",
        basis="" if middle.golden else PEERS,
        reason=remark(f"far {side} the {usual} that {whose} {where}"),
    )


def _scatter(values: list[float]) -> float:
    center = median(values)
    return median(abs(value - center) for value in values)


def _log(value: float) -> float:
    return math.log10(1 + max(0.0, value))
