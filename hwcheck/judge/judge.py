"""A run in, a judgement out: limits, hosts that gave no answer, coverage and the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hwcheck import exit_codes
from hwcheck.judge.evidence import Known, believe, contradictions, gaps, known_of
from hwcheck.judge.expectation import judge_busbw
from hwcheck.judge.fleet import Fleet, fleet_of, same_machine
from hwcheck.judge.nccl_default import judge_nccl_default
from hwcheck.judge.network import judge_network
from hwcheck.judge.p2p import judge_p2p
from hwcheck.judge.peers import judge_peers
from hwcheck.judge.readings import Readings, hold, references
from hwcheck.judge.records import Finding, HostVerdict, Judgement, worst
from hwcheck.judge.second import answered, cut_short
from hwcheck.node import checks
from hwcheck.node.check import Check
from hwcheck.node.collective.leg_checks import leg_samples
from hwcheck.node.limits import FromFleet, FromInventory, FromSlot
from hwcheck.node.wire import CheckResult
from hwcheck.results.run_folder import HostPlan, HostRecord, Run

ALONE = Fleet()
REMEMBERED = 8192
"""Different answers that are kept for hosts to come; what most give is among the first."""

MEANING = "meaning"
"""A metric of this name says in words what the others of its subject mean."""

EXIT_CODES = exit_codes.BY_OUTCOME


@dataclass
class _Host:
    """A host on its way to a verdict."""

    plan: HostPlan
    record: HostRecord
    known: Known
    results: Mapping[str, CheckResult]
    again: HostRecord | None
    findings: list[Finding]

    def complaints(self) -> dict[str, set[str]]:
        """Return the subjects that did not pass, by check."""
        found: dict[str, set[str]] = {}
        for finding in self.findings:
            if finding.outcome != "pass":
                found.setdefault(finding.check, set()).add(finding.subject)
        return found


def judge(run: Run) -> Judgement:
    """Judge every host of a run against the limits that the checks declare now."""
    registry = {name: _asked(check, run) for name, check in checks.load().items()}
    planned = list(zip(run.meta.hosts, run.records, strict=True))
    knowns = _one_of_each(known_of(plan.expect, record) for plan, record in planned)
    fleet, doubles = fleet_of(run.records, knowns, registry), same_machine(run)
    like = LikeAnswers(fleet)
    hosts = []
    for (plan, record), known in zip(planned, knowns, strict=True):
        answers = record.report.results if record.report else ()
        results = {
            answer.check: believe(registry[answer.check], answer, known)
            if answer.check in registry
            else answer
            for answer in answers
        }
        again = run.again.get(plan.name)
        visits = [*_visit_findings(record, known), *_second_visit(plan.name, again)]
        host = _Host(plan, record, known, results, again, visits)
        if plan.name in doubles:
            host.findings.append(_unmeasured(plan.name, "", doubles[plan.name]))
        host.findings += _check_findings(host, run.meta.checks, registry, like)
        hosts.append(host)
    _compare(hosts, run.meta.checks, registry)
    findings: list[Finding] = []
    verdicts: list[HostVerdict] = []
    for host in hosts:
        verdict = _verdict(host.plan, host.record, run.meta.checks, host.results, host.findings)
        if verdict.asked == 0 and not host.findings:
            host.findings.append(_unmeasured(host.plan.name, "", verdict.reason))
        findings += host.findings
        verdicts.append(verdict)
    outcome = worst(verdict.outcome for verdict in verdicts)
    return Judgement(outcome, EXIT_CODES[outcome], tuple(verdicts), tuple(findings))


def _asked(check: Check, run: Run) -> Check:
    """Return a check of legs with those that were asked for, where not all were."""
    legs = run.meta.timing.legs
    return replace(check, legs=legs) if check.legs and legs else check


def _check_findings(
    host: _Host, asked: Sequence[str], registry: Mapping[str, Check], like: LikeAnswers
) -> Iterator[Finding]:
    name, record, known = host.plan.name, host.record, host.known
    for check in asked:
        if check in host.results and check in registry:
            result = host.results[check]
            yield from like.judge_result(name, registry[check], result, known)
            if result.legs:
                yield from judge_busbw(name, check, result.legs, record, known, host.again)
                yield from _failures(name, registry[check], answered(host.again, check), known)
                yield from judge_network(name, check, result.legs, record, known)
                yield from judge_nccl_default(name, check, result.legs, record)
        elif record.report is not None:
            yield _unmeasured(name, check, _lost_reason(check, registry, record))


def _second_visit(host: str, again: HostRecord | None) -> Iterator[Finding]:
    """Yield that a host did not stand a second visit: nobody can rely on it, whatever it sent."""
    ended = cut_short(again)
    if ended:
        yield _unmeasured(host, "", f"second visit, to measure again: {ended}")


def _failures(
    host: str, check: Check, again: CheckResult | None, known: Known
) -> Iterator[Finding]:
    """Yield what failed when a check was measured again: a hang or wrong data counts then too."""
    if again is not None:
        for finding in judge_result(host, check, again, known):
            if finding.outcome == "fail":
                reason = f"when measured again: {finding.reason}".rstrip(": ")
                yield finding._replace(reason=reason)


def _one_of_each(knowns: Iterable[Known]) -> list[Known]:
    """Return what is known of each host; where it is the same, as one object."""
    distinct: dict[str, Known] = {}
    return [distinct.setdefault(repr(known), known) for known in knowns]


class LikeAnswers:
    """Answers that are alike, of hosts that are: these are judged once in a run.

    Samples that are alike are one object, as they are read (``wire``).
    """

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._judged: dict[tuple[object, ...], tuple[CheckResult, Known, list[Finding]]] = {}

    def judge_result(
        self, host: str, check: Check, result: CheckResult, known: Known
    ) -> list[Finding]:
        """Return what ``judge_result`` does."""
        if result.legs:
            return judge_result(host, check, result, known, self._fleet)
        same = (check.id, result.state, result.reason, id(known), *map(id, result.samples))
        found = self._judged.get(same)
        if found is None:
            found = result, known, judge_result("", check, result, known, self._fleet)
            if len(self._judged) < REMEMBERED:
                self._judged[same] = found  # what is kept keeps its id
        return [Finding._make((host, *finding[1:])) for finding in found[2]]


def _compare(hosts: list[_Host], asked: Sequence[str], registry: Mapping[str, Check]) -> None:
    """Warn of numbers unlike those of like hosts; what was complained of is no measure."""
    bad = [host.complaints() for host in hosts]
    by_name = {host.plan.name: host for host in hosts}
    nothing: set[str] = set()
    for name in asked:
        if name in registry:
            answers = (
                (host.plan.name, host.results[name], host.known, said.get(name, nothing))
                for host, said in zip(hosts, bad, strict=True)
                if name in host.results
            )
            for finding in judge_peers(registry[name], answers):
                by_name[finding.host].findings.append(finding)


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
    readings = Readings(check, result)
    findings += [_unmeasured(host, check.id, doubt, about) for about, doubt in readings.doubts]
    for metric, sample in readings.held:
        for limit, reference in references(readings, metric, sample, known, fleet):
            finding = hold(host, check.id, metric, sample, limit, reference)
            findings.append(_explained(finding, readings))
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


def _must_judge(check: Check) -> bool:
    limits = [limit for metric in check.metrics for limit in metric.limits]
    return any(
        not isinstance(limit.operand, (FromInventory, FromFleet, FromSlot)) for limit in limits
    )


def _explained(finding: Finding, readings: Readings) -> Finding:
    """Give a failure the node's own words for it, where the check sends them as ``meaning``."""
    if finding.outcome == "pass" or finding.reason:
        return finding
    said = readings.by_subject(MEANING)
    return finding._replace(reason=str(said.get(finding.subject, "")))


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
        unmeasured=tuple(each for each in skipped if each[0] in apply),
    )
