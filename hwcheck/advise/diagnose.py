"""A judged run in, its causes out: each host by itself, then folded over the hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from hwcheck.advise.case import Case
from hwcheck.advise.cause_records import CONFIDENCES, Causes, Diagnosis, Rule, Sign
from hwcheck.advise.rule import load
from hwcheck.fold import fold
from hwcheck.judge.evidence import known_of
from hwcheck.judge.legs import legs_of
from hwcheck.judge.records import OUTCOMES, Finding, Judgement, worst
from hwcheck.node.wire import Value
from hwcheck.results.run_folder import HostPlan, HostRecord, Run
from hwcheck.text import line, quantity

OBSERVED_LINES = 8
MOST_SUBJECTS = 8
REASON_CHARACTERS = 160


@dataclass(frozen=True)
class Found:
    """A rule that speaks up on a host."""

    host: str
    rule: Rule
    sign: Sign

    @property
    def outcome(self) -> str:
        """The worst of what it explains."""
        return worst(finding.outcome for finding in self.sign.explains)


def diagnose(run: Run, judgement: Judgement) -> Causes:
    """Return what is wrong, as far as rules know; findings that none explains are left to others.

    On a host the likeliest cause comes first. One whose findings are all explained by likelier ones
    is not named: it would be a symptom.
    """
    found: list[Found] = []
    explained: dict[Finding, str] = {}
    by_host: dict[str, tuple[str, ...]] = {}
    for plan, record in zip(run.meta.hosts, run.records, strict=True):
        bad = [f for f in judgement.by_host.get(plan.name, ()) if f.outcome != "pass"]
        own = list(causes_of(case_of(plan, record, bad)))
        if own:
            by_host[plan.name] = tuple(each.rule.cause for each in own)
        for each in own:
            for finding in each.sign.explains:
                explained.setdefault(finding, each.rule.title)
        found += own
    return Causes(tuple(_folded(found)), by_host, explained)


def case_of(plan: HostPlan, record: HostRecord, findings: Iterable[Finding]) -> Case:
    """Return a host as the rules see it. One without any finding needs no readings."""
    own = tuple(findings)
    readings: dict[tuple[str, str], dict[str, Value]] = {}
    for result in record.report.results if own and record.report else ():
        for sample in result.samples:
            readings.setdefault((result.check, sample.metric), {})[sample.subject] = sample.value
    legs = tuple(leg for leg in legs_of(record) if leg.backend == "nccl") if own else ()
    return Case(plan.name, record, known_of(plan.expect, record), own, readings, legs)


def causes_of(case: Case) -> Iterator[Found]:
    """Yield the causes of one host, the likeliest first."""
    if not case.findings:
        return
    spoken = []
    for each in load().values():
        seen = each.look(case)
        if seen is not None:
            spoken.append(Found(case.host, each, seen))
    left = set(case.findings)
    for found in sorted(spoken, key=_rank):
        if found.sign.stands or left & set(found.sign.explains):
            left -= set(found.sign.explains)
            yield found


def _rank(found: Found) -> tuple[int, int, int]:
    return (
        CONFIDENCES.index(found.sign.confidence),
        OUTCOMES.index(found.outcome),
        -len(found.sign.explains),
    )


def _folded(found: Iterable[Found]) -> Iterator[Diagnosis]:
    """Yield one diagnosis for each cause: the gravest first, then the likeliest."""
    by_cause: dict[str, list[Found]] = {}
    for each in found:
        by_cause.setdefault(each.rule.cause, []).append(each)
    yield from sorted((_diagnosis(members) for members in by_cause.values()), key=_gravity)


def _gravity(diagnosis: Diagnosis) -> tuple[int, int, int, str]:
    return (
        OUTCOMES.index(diagnosis.outcome),
        CONFIDENCES.index(diagnosis.confidence),
        -len(diagnosis.hosts),
        diagnosis.cause,
    )


def _diagnosis(members: list[Found]) -> Diagnosis:
    rule = members[0].rule
    explained = [finding for each in members for finding in each.sign.explains]
    return Diagnosis(
        cause=rule.cause,
        title=rule.title,
        outcome=worst(each.outcome for each in members),
        confidence=min((each.sign.confidence for each in members), key=CONFIDENCES.index),
        hosts=tuple(dict.fromkeys(each.host for each in members)),
        observed=tuple(_observed(members)),
        explains=tuple(dict.fromkeys(finding.check for finding in explained)),
        follows=rule.follows,
        fix=rule.fix,
        command=rule.confirm,
        role=rule.role,
        source=rule.source,
    )


def _observed(members: list[Found]) -> Iterator[str]:
    """Yield what was seen, equal observations merged: ``node[01-02]: acs_redirect yes of ...``."""
    hosts: dict[str, list[str]] = {}
    for each in members:
        for text in (*seen(each.sign.explains), *each.sign.also):
            hosts.setdefault(line(text), []).append(each.host)
    listed = sorted(hosts.items(), key=lambda item: -len(item[1]))
    for text, names in listed[:OBSERVED_LINES]:
        yield f"{fold(names)}: {text}"
    if len(listed) > OBSERVED_LINES:
        yield f"and {len(listed) - OBSERVED_LINES} more, see the hosts"


def seen(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield findings in words, with the subjects of equal ones folded."""
    subjects: dict[tuple[str, str, str], list[str]] = {}
    for finding in findings:
        told = f"{line(finding.metric, 80)} {quantity(finding.value, finding.unit)}"
        parts = (told if finding.metric else "", line(finding.reason, REASON_CHARACTERS))
        text = ": ".join(part for part in parts if part)
        names = subjects.setdefault((finding.check, finding.metric, text), [])
        names.append(line(finding.subject, 80))
    for (check, _, text), names in subjects.items():
        yield f"{check}: {text}{_of(names)}"


def _of(names: list[str]) -> str:
    named = list(dict.fromkeys(name for name in names if name != "node"))
    if not named:
        return ""
    if any(" " in name for name in named):
        more = f" and {len(named) - MOST_SUBJECTS} more" if len(named) > MOST_SUBJECTS else ""
        return f" ({', '.join(named[:MOST_SUBJECTS])}{more})"
    return f" ({fold(named)})"
