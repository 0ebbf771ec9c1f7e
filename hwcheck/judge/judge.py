"""A run in, a judgement out: limits, hosts that gave no answer, coverage and the exit code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from hwcheck.judge.evidence import Known, believe, contradictions, gaps, known_of
from hwcheck.judge.fleet import Fleet, fleet_of, kind_of, same_machine
from hwcheck.judge.p2p import judge_p2p
from hwcheck.judge.plausible import implausible
from hwcheck.judge.records import Finding, HostVerdict, Judgement, worst
from hwcheck.judge.slots import slot_of
from hwcheck.limits import FromFleet, FromInventory, FromModel, FromSample, FromSlot, Limit, Operand
from hwcheck.models import model_of
from hwcheck.node import checks
from hwcheck.node.check import Check, Metric
from hwcheck.node.collective.leg_samples import leg_samples
from hwcheck.results import HostPlan, HostRecord, Run
from hwcheck.wire import CheckResult, Sample, Value

ALONE = Fleet()
MEANING = "meaning"
"""A metric of this name says in words what the others of its subject mean."""

EXIT_CODES = {"pass": 0, "warn": 0, "fail": 1, "inconclusive": 3}


def judge(run: Run) -> Judgement:
    """Judge every host of a run against the limits that the checks declare now."""
    registry = checks.load()
    fleet, doubles = fleet_of(run, registry), same_machine(run)
    findings: list[Finding] = []
    verdicts: list[HostVerdict] = []
    for plan, record in zip(run.meta.hosts, run.records, strict=True):
        known = known_of(plan.expect, record)
        results = {} if record.report is None else {r.check: r for r in record.report.results}
        results = {
            name: believe(registry[name], result, known) if name in registry else result
            for name, result in results.items()
        }
        own = [*_visit_findings(record, known)]
        if plan.name in doubles:
            own.append(_unmeasured(plan.name, "", doubles[plan.name]))
        for name in run.meta.checks:
            if name in results and name in registry:
                own += judge_result(plan.name, registry[name], results[name], known, fleet)
            elif record.report is not None:
                own.append(_unmeasured(plan.name, name, _lost_reason(name, registry, record)))
        verdict = _verdict(plan, record, run.meta.checks, results, own)
        if verdict.asked == 0 and not own:
            own.append(_unmeasured(plan.name, "", verdict.reason))
        findings += own
        verdicts.append(verdict)
    outcome = worst(verdict.outcome for verdict in verdicts)
    return Judgement(outcome, EXIT_CODES[outcome], tuple(verdicts), tuple(findings))


def judge_result(
    host: str, check: Check, result: CheckResult, known: Known, fleet: Fleet = ALONE
) -> list[Finding]:
    """Judge one check's answer.

    Samples are judged in every state. An answer that claims to be done is inconclusive as far as
    it lacks what such an answer holds: a node that says nothing has not passed.
    """
    findings: list[Finding] = []
    if check.legs:
        derived = tuple(sample for leg in result.legs for sample in leg_samples(leg))
        if set(derived) != set(result.samples):
            findings.append(_unmeasured(host, check.id, "the samples are not those of the legs"))
        result = replace(result, samples=derived)
    readings, doubted = _readings(host, check, result)
    findings += doubted
    for metric, sample in readings:
        for limit, reference in _limits(check, metric, sample, readings, known, fleet):
            findings.append(_hold(host, check, metric, sample, limit, reference))
    findings = [_explained(finding, readings) for finding in findings]
    findings += judge_p2p(host, check.id, result.legs)
    if result.state == "not_applicable":
        return [finding for finding in findings if finding.outcome != "pass"]
    if result.state != "done":
        reason = result.reason or result.state
        findings.append(_unmeasured(host, check.id, reason))
        return findings
    missing = [_unmeasured(host, check.id, why, about) for about, why in gaps(check, result, known)]
    if not findings and not missing and _must_judge(check):
        missing.append(_unmeasured(host, check.id, "the node sent no sample for it"))
    return findings + missing


Reading = tuple[Metric, Sample]


def _readings(host: str, check: Check, result: CheckResult) -> tuple[list[Reading], list[Finding]]:
    """Return the samples that are readings of the check's metrics, and a finding for the others."""
    readings, doubted = [], []
    for sample in result.samples:
        metric = check.metric(sample.metric)
        named = f"{sample.metric} is not a metric of this check"
        doubt = implausible(metric, sample) if metric else named
        if metric is None or doubt:
            doubted.append(_unmeasured(host, check.id, doubt[:200], sample.subject))
        else:
            readings.append((metric, sample))
    return readings, doubted


def _limits(
    check: Check,
    metric: Metric,
    sample: Sample,
    readings: list[Reading],
    known: Known,
    fleet: Fleet,
) -> Iterator[tuple[Limit, Value | None]]:
    """Yield the limits that apply to a sample, each with its reference (None: there is none)."""
    operands = [limit.operand for limit in metric.limits]
    declared = any(isinstance(o, FromInventory) and o.name in known.expect for o in operands)
    for limit, operand in zip(metric.limits, operands, strict=True):
        if isinstance(operand, FromInventory):
            if operand.name in known.expect:
                yield limit, known.expect[operand.name]
        elif isinstance(operand, FromFleet):
            kind = kind_of(sample, operand, (other for _, other in readings), known)
            most = fleet.reference(check.id, metric.name, kind)
            if most is not None and not declared:
                yield limit, most
        elif isinstance(operand, FromSample):
            found = {s.subject: s.value for m, s in readings if m.name == operand.metric}
            yield limit, found.get(sample.subject, found.get("node"))
        elif isinstance(operand, FromSlot):
            highest = fleet.slots.highest(slot_of(check.id, sample, known), operand.margin)
            if highest is not None:
                yield limit, highest
        elif isinstance(operand, FromModel):
            name, device = (d.get(sample.subject, "") for d in (known.models, known.devices))
            model = model_of(name, device)
            reached = model.reached(operand.figure) if model else None
            if reached is not None or not operand.known_only:
                yield limit, reached
        else:
            yield limit, None


def _hold(
    host: str, check: Check, metric: Metric, sample: Sample, limit: Limit, reference: Value | None
) -> Finding:
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
        check=check.id,
        outcome=outcome,
        metric=metric.name,
        subject=sample.subject,
        value=sample.value,
        unit=metric.unit,
        limit=limit.text(None if reason else reference),
        source=limit.source,
        confidence=limit.confidence,
        reason=reason,
    )


def _no_reference(operand: Operand, metric: Metric) -> str:
    if isinstance(operand, FromModel):
        return f"no {operand.figure} of a GPU of this model is known to hold {metric.name} against"
    return f"no {operand} to hold {metric.name} against"


def _must_judge(check: Check) -> bool:
    limits = [limit for metric in check.metrics for limit in metric.limits]
    return any(
        not isinstance(limit.operand, (FromInventory, FromFleet, FromSlot)) for limit in limits
    )


def _explained(finding: Finding, readings: list[Reading]) -> Finding:
    """Give a failure the node's own words for it, where the check sends them as ``meaning``."""
    if finding.outcome == "pass" or finding.reason:
        return finding
    said = {sample.subject: sample.value for metric, sample in readings if metric.name == MEANING}
    return replace(finding, reason=str(said.get(finding.subject, "")))


def _visit_findings(record: HostRecord, known: Known) -> Iterator[Finding]:
    if record.state != "reported":
        yield _unmeasured(record.host, "", f"{record.state.replace('_', ' ')}: {record.reason}")
    else:
        for reason in contradictions(record, known):
            yield _unmeasured(record.host, "", reason)


def _lost_reason(name: str, registry: Mapping[str, Check], record: HostRecord) -> str:
    if name not in registry:
        return "this version of hwcheck does not know the check"
    return "no answer" if record.state == "reported" else f"not reached: {record.reason}"


def _unmeasured(host: str, check: str, reason: str, subject: str = "node") -> Finding:
    return Finding(host, check, "inconclusive", subject=subject, reason=reason)


def _verdict(
    plan: HostPlan,
    record: HostRecord,
    asked: tuple[str, ...],
    results: Mapping[str, CheckResult],
    findings: list[Finding],
) -> HostVerdict:
    states = {name: results[name].state if name in results else "lost" for name in asked}
    apply = [name for name in asked if states[name] != "not_applicable"]
    skipped = tuple(
        (name, results[name].reason if name in results else record.reason or "no answer")
        for name in asked
        if states[name] != "done"
    )
    outcome = worst(finding.outcome for finding in findings)
    reasons = dict.fromkeys(
        finding.reason or f"{finding.check}: {finding.metric} of {finding.subject}"
        for finding in findings
        if finding.outcome == outcome and outcome != "pass"
    )
    measured = sum(states[name] == "done" for name in apply)
    if measured < len(apply) and outcome in ("pass", "warn"):
        outcome, reasons = "inconclusive", {f"{len(apply) - measured} checks gave no answer": None}
    if not apply and outcome == "pass":
        outcome, reasons = "inconclusive", {"no check applies to this host": None}
    return HostVerdict(
        host=plan.name,
        outcome=outcome,
        state=record.state,
        reason="; ".join(list(reasons)[:3]) + (" ..." if len(reasons) > 3 else ""),
        asked=len(apply),
        measured=measured,
        not_applicable=len(asked) - len(apply),
        skipped=skipped,
    )
