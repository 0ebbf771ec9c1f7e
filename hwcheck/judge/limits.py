"""Answers held against the limits that their checks declare. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache, lru_cache

from hwcheck.checks.shared.leg_checks import leg_samples
from hwcheck.contract import reasons
from hwcheck.contract.check import MEANING, Check, Metric
from hwcheck.contract.limits import (
    OPERANDS,
    AbovePeers,
    AtMost,
    Equal,
    FromFleet,
    FromInventory,
    FromModel,
    FromSample,
    Limit,
    Operand,
)
from hwcheck.contract.reasons import NONE, Reason, remark
from hwcheck.contract.wire import CheckResult, Sample, Value
from hwcheck.judge.evidence import gpus_without, omissions
from hwcheck.judge.figures import of_wanted
from hwcheck.judge.fleet import Fleet, kind_of
from hwcheck.judge.host_case import HostCase, NodeFacts
from hwcheck.judge.models import Models
from hwcheck.judge.readings import Readings
from hwcheck.judge.records import NEIGHBORS, UNLIKE, Finding, absent, unmeasured
from hwcheck.results.site_limits import applied

ALONE = Fleet()
"""No other host to compare with."""

REMEMBERED = 8192
"""Different answers that are kept for hosts to come; what most give is among the first."""

SAME_MODEL = "majority of the GPUs of one model in the node: what one of them has, all have"


class Limits:
    """Judges the answers of the hosts of one run; answers that are alike are judged once.

    They are where hosts are alike and samples are: those of one tuple, as they are read (``wire``).
    """

    def __init__(self, fleet: Fleet, models: Models) -> None:
        self._fleet = fleet
        self._models = models
        self._judged: dict[tuple[object, ...], tuple[CheckResult, NodeFacts, list[Finding]]] = {}

    def judge(self, host: HostCase) -> Iterator[Finding]:
        """Yield what ``judge_answer`` does of each answer of a host."""
        for check, answer in host.judged_answers:
            if answer.legs:
                yield from judge_answer(
                    host.name, check, answer, host.facts, self._models, self._fleet
                )
                continue
            key = (check.id, answer.state, answer.reason, id(host.facts), id(answer.samples))
            like = self._judged.get(key)
            if like is None:
                findings = judge_answer("", check, answer, host.facts, self._models, self._fleet)
                like = answer, host.facts, findings
                if len(self._judged) < REMEMBERED:
                    self._judged[key] = like  # what is kept keeps its id
            yield from [Finding._make((host.name, *finding[1:])) for finding in like[2]]


def judge_answer(
    host: str,
    check: Check,
    answer: CheckResult,
    facts: NodeFacts,
    models: Models,
    fleet: Fleet = ALONE,
) -> list[Finding]:
    """Judge one check's answer.

    Samples are judged in every state. An answer that claims to be done is inconclusive as far as
    it lacks what such an answer holds: a node that says nothing has not passed.
    """
    findings: list[Finding] = []
    try:
        check = applied(check, facts.limits)
    except ValueError as error:
        text = f"hwcheck_limits of {check.id}: {error}"
        findings.append(unmeasured(host, check.id, Reason(reasons.IMPLAUSIBLE, text)))
    if check.legs:
        derived = tuple(sample for leg in answer.legs for sample in leg_samples(leg))
        if set(derived) != set(answer.samples):
            others = Reason(reasons.IMPLAUSIBLE, "the samples are not those of the legs")
            findings.append(unmeasured(host, check.id, others))
        answer = replace(answer, samples=derived)
    readings = Readings(check, answer)
    findings += [unmeasured(host, check.id, doubt, about) for about, doubt in readings.doubts]
    for metric, sample in readings.held:
        for limit, reference in references(readings, metric, sample, facts, models, fleet):
            finding = hold(host, check.id, metric, sample, limit, reference)
            if finding.outcome in ("warn", "fail"):
                finding = _explained(finding, metric, limit, reference, readings)
            findings.append(finding)
    if answer.state == "not_applicable":
        return [finding for finding in findings if finding.outcome != "pass"]
    if answer.state != "done":
        reason = answer.reason or Reason(reasons.NOT_MEASURED, answer.state)
        findings.append(unmeasured(host, check.id, reason))
        return findings
    missing = [
        unmeasured(host, check.id, why, about) for about, why in omissions(check, answer, facts)
    ]
    missing += [
        absent(
            host,
            check.id,
            gpu,
            limit=f"{UNLIKE} {counts} have {check.optional}",
            source=SAME_MODEL,
            reason=f"no {check.optional}: it tells nothing, "
            f"{counts} GPUs of this model in the node do",
            basis=NEIGHBORS,
        )
        for gpu, counts in gpus_without(check, answer, facts)
    ]
    if not findings and not missing and _must_judge(check):
        nothing = Reason(reasons.NOT_ANSWERED, "the node sent no sample for it")
        missing.append(unmeasured(host, check.id, nothing))
    return findings + missing


def _must_judge(check: Check) -> bool:
    """Whether some limit of a check needs neither a declaration nor another host."""
    limits = [limit for metric in check.metrics for limit in metric.limits]
    return any(
        not isinstance(limit, AbovePeers)
        and not isinstance(limit.operand, (FromInventory, FromFleet))
        for limit in limits
    )


def _explained(
    finding: Finding, metric: Metric, limit: Limit, reference: Value | None, readings: Readings
) -> Finding:
    """Give a failure the figures that show it, and the node's own words where it sends them.

    Those are the samples of ``meaning``.
    """
    figures = _ratio(finding, metric, readings) or _of_reference(limit, finding, reference)
    meaning = readings.by_subject(MEANING).get(finding.subject, "")
    return finding._replace(reason=remark(str(meaning)), figures=figures)


def _of_reference(limit: Limit, finding: Finding, reference: Value | None) -> str:
    """Return how much there is of the value that a limit has its share of."""
    if isinstance(limit, AtMost) or finding.value is None:
        return ""
    return of_wanted(finding.value, reference, finding.unit)


def _ratio(finding: Finding, metric: Metric, readings: Readings) -> str:
    """Return the two figures that a percentage was made of; empty where they make another one."""
    parts = [readings.by_subject(name).get(finding.subject) for name in metric.ratio]
    units = [of_name.unit for name in metric.ratio if (of_name := readings.check.metric(name))]
    if len(parts) != 2 or len(units) != 2 or parts[0] is None:
        return ""
    text = of_wanted(parts[0], parts[1], units[0])
    share = float(parts[0]) / float(parts[1] or 1) if text else 0.0
    same = isinstance(finding.value, int | float) and abs(100 * share - finding.value) <= 0.1
    return text if same else ""


def references(
    readings: Readings,
    metric: Metric,
    sample: Sample,
    facts: NodeFacts,
    models: Models,
    fleet: Fleet,
) -> Iterator[tuple[Limit, Value | None]]:
    """Yield the limits that apply to a sample, each with its reference (None: there is none)."""
    limits = readings.limits[metric.name]
    for limit, operand in limits:
        if operand is None:
            yield limit, None
        elif isinstance(operand, FromInventory):
            if operand.name in facts.expect:
                yield limit, facts.expect[operand.name]
        elif isinstance(operand, FromFleet):
            alike = readings.by_subject(operand.alike) if operand.alike else {}
            kind = kind_of(sample, operand, alike, facts)
            most = fleet.reference(readings.check.id, metric.name, kind)
            if most is not None and not _declared(limits, facts):
                golden = fleet.has_golden(readings.check.id, metric.name, kind)
                yield _of_golden(limit) if golden else limit, most
        elif isinstance(operand, FromSample):
            others = readings.by_subject(operand.metric)
            yield limit, others.get(sample.subject, others.get("node"))
        elif isinstance(operand, FromModel):
            names = (facts.models, facts.devices, facts.subsystems)
            model = models.of(*(by_subject.get(sample.subject, "") for by_subject in names))
            reached = model.reached(operand.figure) if model else None
            if reached is not None or not operand.known_only:
                yield limit, reached


@cache
def _of_golden(limit: Limit) -> Limit:
    """Return the limit that names the golden host; ``Equal`` alone looks at the fleet."""
    assert isinstance(limit, Equal)
    assert isinstance(limit.to, FromFleet)
    return replace(limit, to=replace(limit.to, golden=True))


def _declared(limits: Iterable[tuple[Limit, Operand | None]], facts: NodeFacts) -> bool:
    """Whether the inventory says what the metric should be."""
    return any(isinstance(o, FromInventory) and o.name in facts.expect for _, o in limits)


def hold(
    host: str, check: str, metric: Metric, sample: Sample, limit: Limit, reference: Value | None
) -> Finding:
    """Return the finding of a sample held against one limit."""
    outcome, reason = "inconclusive", NONE
    if limit.operand is not None and reference is None:
        reason = Reason(reasons.NO_REFERENCE, _no_reference(limit.operand, metric))
    else:
        try:
            outcome = limit.judge(sample.value, reference)
        except TypeError as error:
            reason = Reason(reasons.IMPLAUSIBLE, str(error))
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
        wanted=_wanted(limit, reference),
        fail_at=None if reason or isinstance(limit, Equal) else _border(limit.fail, reference),
        warn_at=None if reason or isinstance(limit, Equal) else _border(limit.warn, reference),
    )


def _border(share: float | None, reference: Value | None) -> float | None:
    """Return a border in the unit of the sample, where the limit has one."""
    if share is None or reference is None:
        return share
    return share * float(reference)


def _wanted(limit: Limit, reference: Value | None) -> Value | None:
    """Return what the value has to equal; None where there is no such value."""
    if not isinstance(limit, Equal):
        return None
    return reference if isinstance(limit.to, OPERANDS) else limit.to


@lru_cache(maxsize=65536, typed=True)
def _text(limit: Limit, reference: Value | None) -> str:
    """Return a limit in words; like hosts are held against the same few."""
    return limit.text(reference)


def _no_reference(operand: Operand, metric: Metric) -> str:
    if isinstance(operand, FromModel):
        return f"no {operand.figure} of a GPU of this model is known to hold {metric.name} against"
    return f"no {operand} to hold {metric.name} against"
