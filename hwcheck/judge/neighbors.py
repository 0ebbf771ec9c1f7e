"""GPUs of one board in one node against each other: settings by majority, numbers by scatter. Pure.

``fleet``, ``peers`` and ``absence`` ask the same over hosts; this says it of a node alone. The
figures of a load are left to its checks, which compare the GPUs of a node themselves; what a GPU
does not tell in it is said here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hwcheck.contract.check import Check, Metric
from hwcheck.contract.limits import FromSample
from hwcheck.contract.reasons import remark
from hwcheck.contract.wire import Value
from hwcheck.judge.host_case import HostCase
from hwcheck.judge.peers import Middle, bad_sides, middle_of
from hwcheck.judge.records import NEIGHBORS, UNLIKE, Finding
from hwcheck.judge.units import LEAST_GPUS, UNITS
from hwcheck.results.site_limits import ABSENT
from hwcheck.text import number, quantity

LEAST_SLOTS = 8
"""Slots of smaller machines have different widths by design."""

SOURCE = (
    "majority of the GPUs of one board design (PCI ids) in one node: a server is built and set up "
    "with all of them alike"
)
SCATTER_SOURCE = (
    "median and median absolute deviation over the GPUs of one board design in one node (Leys et "
    "al., Journal of Experimental Social Psychology 49, 2013), with floors for honest differences "
    "between slots: at the rear of an air-cooled chassis GPUs run 10 C warmer"
)

UNANSWERED = Metric(ABSENT, "", "what most of the other GPUs answer and this one does not")


class Odd(NamedTuple):
    """A GPU that is unlike the others of its board, and what the others have, in words."""

    check: Check
    metric: Metric
    gpu: str
    value: Value
    limit: str
    reason: str
    source: str


def judge_neighbors(
    hosts: Sequence[HostCase], findings: Sequence[Sequence[Finding]]
) -> Iterator[Finding]:
    """Yield a warning for each GPU that is unlike the others of its board in its node.

    ``findings`` are those of each host so far: of what is complained of nothing is said again. What
    most like hosts show of the same slot is how they are made, or meant.
    """
    telling = {
        check.id: {metric.name: metric for metric in check.metrics if metric.at_work}
        for check in (hosts[0].checks.values() if hosts else ())
        if check and any(metric.at_work for metric in check.metrics)
    }
    odd = [
        list(_odd(host, of_host, telling)) for host, of_host in zip(hosts, findings, strict=True)
    ]
    kinds = Counter(host.facts.kinds for host in hosts)
    shown = Counter(
        (host.facts.kinds, each.check.id, each.metric.name, each.gpu)
        for host, of_host in zip(hosts, odd, strict=True)
        for each in of_host
    )
    for host, of_host in zip(hosts, odd, strict=True):
        kind = host.facts.kinds
        for each in of_host:
            like_it = shown[kind, each.check.id, each.metric.name, each.gpu]
            if like_it < 2 or 2 * like_it <= kinds[kind]:
                yield Finding(
                    host=host.name,
                    check=each.check.id,
                    outcome="warn",
                    metric=each.metric.name,
                    subject=each.gpu,
                    value=each.value,
                    unit=each.metric.unit,
                    limit=each.limit,
                    source=each.source,
                    confidence="derived",
                    reason=remark(each.reason),
                    basis=NEIGHBORS,
                )


def _odd(
    host: HostCase, findings: Sequence[Finding], telling: Mapping[str, Mapping[str, Metric]]
) -> Iterator[Odd]:
    boards: dict[str, list[str]] = {}
    for gpu, board in host.facts.boards.items():
        boards.setdefault(board, []).append(gpu)
    alike = [gpus for gpus in boards.values() if len(gpus) >= LEAST_GPUS]
    if not alike:
        return
    bad = {(f.check, f.subject) for f in findings if f.outcome != "pass"}
    at_work = _at_work(host, telling)
    unlike: set[tuple[str, str]] = set()
    named = {(f.subject, f.unit or f.metric) for f in findings if f.outcome != "pass"}
    for check, answer in host.judged_answers:
        if check.load or check.after_load or answer.state != "done":
            continue
        values: dict[str, dict[str, Value]] = {}
        for sample in answer.samples:
            values.setdefault(sample.metric, {})[sample.subject] = sample.value
        for metric in _compared(check):
            of_metric = values.get(metric.name, {})
            for gpus in alike if of_metric else ():
                figures = {gpu: of_metric[gpu] for gpu in gpus if gpu in of_metric}
                if not _is_setting(metric) and UNITS[metric.unit].rises_with_work:
                    figures = {gpu: each for gpu, each in figures.items() if gpu not in at_work}
                if len(figures) < LEAST_GPUS or len(set(figures.values())) == 1:
                    continue
                for odd in _unlike(check, metric, figures):
                    key = (odd.gpu, metric.unit or metric.name)
                    if (check.id, odd.gpu) not in bad and key not in named:
                        named.add(key)
                        unlike.add((check.id, odd.gpu))
                        yield odd
    if not host.facts.mig:  # much is told of whole GPUs only
        yield from _silent(host, alike, bad | unlike)


def _silent(
    host: HostCase, alike: Sequence[Sequence[str]], bad: set[tuple[str, str]]
) -> Iterator[Odd]:
    """Yield each GPU that does not answer what most of the GPUs of its board do."""
    for check, answer in host.judged_answers:
        if answer.state != "done":
            continue
        answered: dict[str, set[str]] = {}
        for sample in answer.samples:
            answered.setdefault(sample.metric, set()).add(sample.subject)
        causes = (check.id, *check.follows)
        for metric in check.metrics:
            of_metric = answered.get(metric.name, set())
            for gpus in alike if of_metric and not metric.of_some else ():
                have = sum(gpu in of_metric for gpu in gpus)
                for gpu in gpus if 2 * have > len(gpus) else ():
                    if gpu not in of_metric and not any((by, gpu) in bad for by in causes):
                        bad.add((check.id, gpu))
                        counts = f"{have} of {len(gpus)}"
                        limit = f"{UNLIKE} {metric.name} is answered by {counts}"
                        reason = (
                            f"gives no {metric.name}; {counts} GPUs of this kind in the node do"
                        )
                        yield Odd(check, UNANSWERED, gpu, True, limit, reason, SOURCE)


def _at_work(host: HostCase, telling: Mapping[str, Mapping[str, Metric]]) -> set[str]:
    """Return the GPUs on which somebody computes or draws; ``telling`` has by check what tells."""
    busy: set[str] = set()
    for check, metrics in telling.items():
        answer = host.answers.get(check)
        for sample in answer.samples if answer else ():
            metric = metrics.get(sample.metric)
            if metric and (sample.value or not metric.unit):
                busy.add(sample.subject)
    return busy


def _compared(check: Check) -> Iterator[Metric]:
    """Yield the metrics in which GPUs of one kind are alike; what others are held against is not.

    A reference (``vbios_of_most``) says of a GPU what the others have.
    """
    references = {
        limit.operand.metric
        for metric in check.metrics
        for limit in metric.limits
        if isinstance(limit.operand, FromSample) and "of_" in limit.operand.metric
    }
    for metric in check.metrics:
        if metric.name in references or (metric.varies and metric.varies.neighbors):
            continue
        if _is_setting(metric) or UNITS[metric.unit].neighbors:
            yield metric


def _is_setting(metric: Metric) -> bool:
    return not metric.unit or metric.setting


def _unlike(check: Check, metric: Metric, figures: Mapping[str, Value]) -> Iterator[Odd]:
    if _is_setting(metric):
        yield from _in_the_minority(check, metric, figures)
        return
    numbers = {gpu: float(v) for gpu, v in figures.items() if not isinstance(v, (bool, str))}
    tolerance = UNITS[metric.unit].neighbors
    if tolerance is None:
        return
    low, high = tolerance.low, tolerance.high
    if metric.unit == "C":
        low, high = bad_sides(metric, tolerance)
    middle = middle_of(numbers.values(), tolerance)
    for gpu, value in numbers.items() if middle else ():
        if middle and middle.beyond(value, tolerance, low=low, high=high):
            yield _far_off(check, metric, gpu, value, middle)


def _in_the_minority(check: Check, metric: Metric, figures: Mapping[str, Value]) -> Iterator[Odd]:
    (usual, count), *_ = Counter(figures.values()).most_common()
    if 2 * count <= len(figures):
        return
    for gpu, value in figures.items():
        if value == usual or (metric.unit == "lanes" and not _is_narrow(value, usual, figures)):
            continue
        has = quantity(usual, metric.unit)
        yield Odd(
            *(check, metric, gpu, value),
            f"{UNLIKE} {has} on {count} of {len(figures)}",
            f"{count} of {len(figures)} GPUs of this kind in the node have {has}",
            SOURCE,
        )


def _is_narrow(value: Value, usual: Value, figures: Mapping[str, Value]) -> bool:
    return len(figures) >= LEAST_SLOTS and float(value) < float(usual)


def _far_off(check: Check, metric: Metric, gpu: str, value: float, middle: Middle) -> Odd:
    usual = quantity(middle.median, metric.unit)
    width = f"{quantity(middle.width, metric.unit)} either way"
    if middle.log:
        width = f"{number(10**middle.width)} times that"
    side = "above" if value > middle.median else "below"
    return Odd(
        *(check, metric, gpu, value),
        f"{UNLIKE} {usual} in the middle of {middle.hosts}, {width}",
        f"far {side} the {usual} of the GPUs of this kind in the node",
        SCATTER_SOURCE,
    )
