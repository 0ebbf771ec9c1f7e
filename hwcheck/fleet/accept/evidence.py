"""What a stage's run shows of each requirement on each host. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hwcheck.advise.assessment import Assessment
from hwcheck.checks.driver import NVML_STATUS
from hwcheck.checks.parts import (
    CARD_FIRMWARE,
    PART_FIRMWARE,
    PART_MODEL,
    PART_NUMBER,
    PART_PLACE,
    PART_SERIAL,
)
from hwcheck.checks.parts import parts as parts_check
from hwcheck.contract.check import Check
from hwcheck.contract.wire import Sample
from hwcheck.fleet.accept.criteria import ANY, Criteria, Figure, Requirement
from hwcheck.fleet.accept.stages import STAGES, STATE
from hwcheck.fold import fold
from hwcheck.judge.host_case import gpus_of, samples_of
from hwcheck.judge.records import MULTI_HOST, Finding
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import binary_size, count, line, quantity

NOT_MET, NOT_MEASURED, WAIVED, MET, NOT_APPLICABLE = STATES = (
    *("not met", "not measured", "waived", "met", "not applicable"),
)
"""Worst first: of several things that show a requirement the worst decides."""

GOOD = (WAIVED, MET, NOT_APPLICABLE)
"""A host that has only these in a stage may go on to the next."""

OTHER = "other"
"""The id of what no requirement names: the other checks of a stage, each of which must pass."""

SHOWN = 3
SOFTWARE = ("software", "inventory")
"""Group and stage of the checks that name versions."""
NUMBERED = re.compile(r"(\D+)(\d*)")


@dataclass(frozen=True)
class Evidence:
    """What one run shows of a requirement on a host; ``text`` is the figure with its limit."""

    requirement: str
    host: str
    state: str
    text: str
    run: str


@dataclass(frozen=True)
class InstalledPart:
    """A part as a run saw it; ``identity`` tells it from all others, where it has one."""

    identity: str
    model: str = ""
    number: str = ""
    serial: str = ""
    firmware: str = ""
    place: str = ""


@dataclass(frozen=True)
class HostResult:
    """What a run shows of a host: its parts by subject, its software by name, and the evidence."""

    host: str
    parts: Mapping[str, InstalledPart]
    evidence: tuple[Evidence, ...]
    software: Mapping[str, str] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The worst state of any requirement."""
        return worst(each.state for each in self.evidence)


@dataclass(frozen=True)
class LimitUsed:
    """A limit that a run held figures against: in words, whose it is, and of which kind."""

    check: str
    metric: str
    limit: str
    source: str
    confidence: str


@dataclass(frozen=True)
class StageResult:
    """A run of a stage. ``hosts`` are those that it visited, ``limits`` what they were held to.

    Of one that was ``interrupted`` nobody knows how long it would have taken.
    """

    stage: str
    run: str
    started: str
    finished: str
    hosts: Mapping[str, HostResult]
    limits: tuple[LimitUsed, ...] = ()
    interrupted: bool = False


def worst(states: Iterable[str]) -> str:
    """Return the worst of some states; not measured when there is none."""
    return min(states, key=STATES.index, default=NOT_MEASURED)


def stage_result(criteria: Criteria, assessment: Assessment) -> StageResult:
    """Hold a judged run of a stage against the criteria."""
    meta = assessment.run.meta
    stage = meta.acceptance["stage"]
    hosts = {}
    for record in assessment.run.records:
        if record.state == "not_visited":
            continue
        evidence = tuple(_of_host(criteria, stage, assessment, record.host))
        first = next(name for name in criteria.stages if name != STATE)
        if stage == first and criteria.gpu != ANY:
            evidence = (_of_model(criteria, assessment, record.host), *evidence)
        hosts[record.host] = HostResult(
            record.host,
            parts_of(record),
            evidence,
            software_of(record, assessment.catalogue.checks.values()),
        )
    limits = tuple(_limits(assessment.judgement.findings))
    times = (meta.started, meta.finished)
    return StageResult(stage, meta.id, *times, hosts, limits, interrupted=meta.interrupted)


def _limits(findings: Iterable[Finding]) -> list[LimitUsed]:
    """Return each limit once: of a metric the first figure of each source."""
    used: dict[tuple[str, str, str], LimitUsed] = {}
    for each in findings:
        key = (each.check, each.metric, each.source)
        if each.limit and key not in used:
            limit, source = line(each.limit, 400), line(each.source, 400)
            metric = line(each.metric, 60)
            used[key] = LimitUsed(each.check, metric, limit, source, each.confidence)
    return sorted(used.values(), key=lambda limit: (limit.check, limit.metric))


def state_result(criteria: Criteria, run: str, record: Mapping[str, Any]) -> StageResult:
    """Hold assertions against the criteria; ``record`` is a ``state.json``."""
    hosts = {}
    for of_host in record["hosts"]:
        evidence = tuple(
            Evidence(each.id, of_host["host"], *_asserted(each, of_host), run)
            for each in criteria.of_stage(STATE)
        )
        hosts[of_host["host"]] = HostResult(of_host["host"], {}, evidence)
    return StageResult(STATE, run, record["started"], record["finished"], hosts)


def _asserted(requirement: Requirement, of_host: Mapping[str, Any]) -> tuple[str, str]:
    """Return the state of a requirement by the assertions of its roles, and what shows it."""
    assertions = [
        each
        for each in of_host["assertions"]
        if each["outcome"] != NOT_APPLICABLE
        and (not requirement.roles or each["role"] in requirement.roles)
    ]
    for outcome, state in (("fail", NOT_MET), ("inconclusive", NOT_MEASURED)):
        wrong = [
            line(f"{each['reason']} (role {each['role']}, {each['variable']})", 200)
            for each in assertions
            if each["outcome"] == outcome
        ]
        if wrong:
            return state, _some(wrong)
    if assertions:
        roles = dict.fromkeys(each["role"] for each in assertions)
        return MET, f"{count(len(assertions), 'assertion')} of {', '.join(roles)}"
    why = "no assertion applies to it"
    if requirement.may_lack:
        return NOT_APPLICABLE, f"{requirement.may_lack}: {why}"
    return NOT_MEASURED, why


def parts_of(record: HostRecord) -> dict[str, InstalledPart]:
    """Return the parts that a host named, by subject; of a visit without inventory the GPUs."""
    values: dict[str, dict[str, str]] = {}
    for sample in samples_of(record, parts_check):
        values.setdefault(line(sample.subject, 60), {})[sample.metric] = line(str(sample.value), 80)
    values.pop("node", None)
    uuids = {f"gpu{gpu.index}": gpu for gpu in gpus_of(record) if gpu.index is not None}
    parts = {}
    for subject in sorted({*values, *uuids}, key=natural):
        its, gpu = values.get(subject, {}), uuids.get(subject)
        serial = its.get(PART_SERIAL.name, "") or line((gpu and gpu.serial) or "", 60)
        parts[subject] = InstalledPart(
            identity=line((gpu and gpu.uuid) or serial, 80),
            model=its.get(PART_MODEL.name, "") or line(gpu.name if gpu else "", 80),
            number=its.get(PART_NUMBER.name, ""),
            serial=serial,
            firmware=its.get(PART_FIRMWARE.name, "") or its.get(CARD_FIRMWARE.name, ""),
            place=its.get(PART_PLACE.name, ""),
        )
    return parts


def software_of(record: HostRecord, checks: Collection[Check]) -> dict[str, str]:
    """Return the versions that a host named: driver, CUDA, kernel, torch, NCCL, tools."""
    return {
        line(sample.metric.replace("_", " "), 60): line(str(sample.value), 80)
        for check in checks
        if (check.group, check.stage) == SOFTWARE
        for sample in samples_of(record, check)
        if sample.subject == "node"
        and isinstance(sample.value, str)
        and sample.value
        and sample.metric != NVML_STATUS.name
    }


def natural(subject: str) -> list[tuple[str, int]]:
    """Return what puts ``gpu10`` behind ``gpu9``."""
    return [(word, int(number or 0)) for word, number in NUMBERED.findall(subject)]


def _of_model(criteria: Criteria, assessment: Assessment, host: str) -> Evidence:
    """Say whether a host has the GPUs that the criteria are for."""
    record = next(each for each in assessment.run.records if each.host == host)
    kinds: dict[str, None] = {}
    for gpu in gpus_of(record):
        model = assessment.catalogue.models.of(gpu.name, gpu.pci_device_id, gpu.pci_subsystem_id)
        kinds[model.id if model else line(gpu.name, 60) or "a GPU without a name"] = None
    text = ", ".join(kinds) or "no GPU that the node names"
    wrong = set(kinds) - {criteria.gpu}
    state = NOT_MET if wrong else MET if kinds else NOT_MEASURED
    what = f"{text}; the criteria are for {criteria.gpu}" if wrong else text
    return Evidence("gpu", host, state, what, assessment.run.meta.id)


def _of_host(
    criteria: Criteria, stage: str, assessment: Assessment, host: str
) -> Iterator[Evidence]:
    if STAGES[stage].over_hosts:
        yield from _over_hosts(criteria, stage, assessment, host)
        return
    findings: dict[str, list[Finding]] = {}
    for finding in assessment.judgement.by_host.get(host, ()):
        findings.setdefault(finding.check, []).append(finding)
    verdict = next(each for each in assessment.judgement.hosts if each.host == host)
    unmeasured = dict(verdict.unmeasured)
    lacking = {check: why for check, why in verdict.skipped if check not in unmeasured}
    record = next(each for each in assessment.run.records if each.host == host)
    meta = assessment.run.meta
    alone = len(meta.hosts) == 1
    of_run = _OfRun(criteria, findings, unmeasured, lacking, meta.checks, record, alone)
    run, named = assessment.run.meta.id, set[str]()
    for requirement in criteria.of_stage(stage):
        state, text = of_run.shown(requirement)
        named |= {*requirement.checks, *(figure.check for figure in requirement.figures)}
        yield Evidence(requirement.id, host, state, text, run)
    rest = [check for check in ("", *of_run.checks) if check not in named]
    answers = [of_run.of_check(check) for check in rest]
    applying = [each for each in answers if each[0] != NOT_APPLICABLE]
    state = worst(each[0] for each in applying) if applying else NOT_APPLICABLE
    texts = [text for each, text in applying if each == state and text]
    text = _some(texts) if state != MET else count(len(texts), "other check")
    yield Evidence(OTHER, host, state, text, run)


def _over_hosts(
    criteria: Criteria, stage: str, assessment: Assessment, host: str
) -> Iterator[Evidence]:
    """Yield what the runs over several hosts show of a host: each requirement is about them all."""
    record, run = assessment.multi_host, assessment.run.meta.id
    findings = [
        finding
        for finding in assessment.judgement.by_host.get(host, ())
        if finding.check in (MULTI_HOST, "")
    ]
    failed = [finding for finding in findings if finding.outcome == "fail"]
    unjudged = [finding for finding in findings if finding.outcome == "inconclusive"]
    runs = [each for each in record.runs if host in each.hosts] if record else []
    if failed:
        state, text = NOT_MET, _in_words(stage, failed)
    elif record and record.fabric and host not in record.absent:
        state, text = NOT_MET, _some([line(f"{stage}: {each}", 200) for each in record.fabric])
    elif unjudged:
        state, text = NOT_MEASURED, _in_words(stage, unjudged)
    elif record is None or not runs:
        state, text = NOT_MEASURED, f"{stage}: it took part in no run"
    elif record.backend != "nccl" and not criteria.exercise:
        state, text = NOT_MEASURED, f"{stage}: over {record.backend}, which says nothing about GPUs"
    else:
        slowest = min(runs, key=lambda each: each.outcome.busbw_gbps)
        others = fold(name for name in slowest.hosts if name != host)
        size = binary_size(slowest.sizes[-1].size_bytes) if slowest.sizes else "no size"
        state = MET
        text = (
            f"{count(len(runs), 'run')}, the slowest {slowest.collective} with {others}: "
            f"{slowest.outcome.text()} at {size}"
        )
    for requirement in criteria.of_stage(stage):
        yield Evidence(requirement.id, host, state, text, run)


def _some(texts: Sequence[str]) -> str:
    more = f"; and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
    return "; ".join(texts[:SHOWN]) + more


@dataclass(frozen=True)
class _OfRun:
    """What a run has of one host, by check.

    A host that is ``alone`` in it, such as one that was repaired, has no finding of a check that
    only compares hosts; every call compares all in the stage inventory.
    """

    criteria: Criteria
    findings: Mapping[str, Sequence[Finding]]
    unmeasured: Mapping[str, str]
    lacking: Mapping[str, str]
    checks: tuple[str, ...]
    record: HostRecord
    alone: bool

    def shown(self, requirement: Requirement) -> tuple[str, str]:
        """Return the state of a requirement, and what shows it."""
        answers = [self.of_check(check, strict=requirement.strict) for check in requirement.checks]
        answers += [self._of_figure(figure) for figure in requirement.figures]
        applying = [each for each in answers if each[0] != NOT_APPLICABLE]
        if not applying:
            why = answers[0][1] if answers else "no check shows it"
            if requirement.may_lack:
                return NOT_APPLICABLE, f"{requirement.may_lack}: {why}"
            return NOT_MEASURED, f"nothing on this host shows it: {why}"
        state = worst(each[0] for each in applying)
        return state, _some([text for each, text in applying if each == state and text])

    def of_check(self, check: str, *, strict: bool = False) -> tuple[str, str]:
        """Return the state that a check's findings have, and what shows it."""
        findings = self.findings.get(check, ())
        name = check or "visit"
        wrong = [f for f in findings if f.outcome == "fail" or (strict and f.outcome == "warn")]
        not_waived = [f for f in wrong if not f.waived or check not in self.criteria.waivers]
        if not_waived:
            why = "; the criteria allow no waiver of it" if not_waived[0].waived else ""
            return NOT_MET, _in_words(name, not_waived) + why
        unjudged = [f for f in findings if f.outcome == "inconclusive" and not f.waived]
        if unjudged:
            return NOT_MEASURED, _in_words(name, unjudged)
        if check in self.unmeasured:
            return NOT_MEASURED, f"{name}: {line(self.unmeasured[check], 160)}"
        if wrong:
            return WAIVED, f"{_in_words(name, wrong)}: {wrong[0].waived}"
        if check in self.lacking:
            return NOT_APPLICABLE, f"{name}: {line(self.lacking[check], 160)}"
        if not check:
            return (NOT_APPLICABLE if not findings else MET), ""
        if check not in self.checks or not findings:
            if self.alone and any(self._samples(check)):
                return NOT_APPLICABLE, f"{name}: no other host is in the run to hold it against"
            return NOT_MEASURED, f"{name}: the run has nothing of it"
        warned = [finding for finding in findings if finding.outcome == "warn"]
        if warned:
            passed = [finding for finding in findings if finding.outcome == "pass"]
            figure = f"{_in_words(name, _narrowest(passed))}; " if passed else ""
            return MET, f"{figure}{_in_words(name, warned)}, a warning"
        return MET, _in_words(name, _narrowest(findings))

    def _of_figure(self, figure: Figure) -> tuple[str, str]:
        if figure.check in self.lacking:
            return NOT_APPLICABLE, f"{figure.check}: {line(self.lacking[figure.check], 160)}"
        if figure.check in self.unmeasured:
            return NOT_MEASURED, f"{figure.check}: {line(self.unmeasured[figure.check], 160)}"
        values = [
            (float(sample.value), sample)
            for sample in self._samples(figure.check)
            if sample.metric == figure.metric
            and not isinstance(sample.value, (bool, str))
            and math.isfinite(sample.value)
            and figure.is_about(sample.subject)
        ]
        if not values:
            return NOT_MEASURED, f"{figure.check}: no {figure.metric} was measured"
        lowest = figure.at_least is not None
        _, decisive = (min if lowest else max)(values, key=lambda each: each[0])
        holds = all(figure.holds(value) for value, _ in values)
        text = (
            f"{figure.metric} of {line(decisive.subject, 60)}: "
            f"{quantity(decisive.value, decisive.unit)}, {figure} ({figure.source})"
        )
        return (MET if holds else NOT_MET), text

    def _samples(self, check: str) -> Iterator[Sample]:
        """Yield what the host sent for a check, and of its legs those that count."""
        for result in self.record.report.results if self.record.report else ():
            if result.check == check:
                idle = {
                    f"leg {leg.leg}"
                    for leg in result.legs
                    if leg.state != "done" or (leg.exercise and not self.criteria.exercise)
                }
                yield from (each for each in result.samples if each.subject not in idle)


def _in_words(check: str, findings: Sequence[Finding]) -> str:
    """Say what findings of a check show: the first of them with its limit, and how many more."""
    if not findings:
        return check
    first = findings[0]
    more = f", and {len(findings) - 1} more" if len(findings) > 1 else ""
    if first.value is None:
        return f"{check}: {line(first.reason.text, 200) or first.outcome}{more}"
    about = f"{line(first.metric, 60)} of {line(first.subject, 60)}"
    limit = f" ({line(first.limit, 120)})" if first.limit else ""
    means = f": {line(first.reason.text, 160)}" if first.reason and first.outcome != "pass" else ""
    return f"{check}: {about}: {quantity(first.value, first.unit)}{means}{limit}{more}"


def _narrowest(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings, that which is nearest to its border first; words come last."""

    def margin(finding: Finding) -> tuple[bool, float]:
        border = finding.fail_at if finding.fail_at is not None else finding.warn_at
        value = finding.value
        if isinstance(value, (bool, str)) or value is None:
            return True, 0.0
        if border is None:
            return False, float("inf")
        return False, abs(float(value) - border) / (abs(border) or 1.0)

    return sorted(findings, key=margin)
