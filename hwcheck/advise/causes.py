"""A judged run in, its causes out: each host by itself, then folded over the hosts."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType

from hwcheck.advise import rules
from hwcheck.advise.places import places
from hwcheck.advise.records import CONFIDENCES, Causes, Diagnosis
from hwcheck.advise.rule import HostFindings, Rule, Sign
from hwcheck.contract.wire import Value
from hwcheck.fold import fold, fold_subjects
from hwcheck.judge.figures import measured
from hwcheck.judge.host_case import node_facts
from hwcheck.judge.legs import legs_of
from hwcheck.judge.records import BESIDE_CHECKS, OUTCOMES, Finding, Judgement, counted, worst
from hwcheck.results.run_folder import HostPlan, HostRecord, Run
from hwcheck.text import line

Rules = Mapping[str, Rule]
"""Rules by their cause."""

Rank = tuple[int, int, int]

OBSERVED_LINES = 8
NAMES_CHARACTERS = 60
"""Longer names of all hosts of a cause stand beside it once, and not in each line again."""
MOST_PLACES = 8
MOST_SUBJECTS = 8
MOST_CHECKS = 3
REASON_CHARACTERS = 160


def rules_of(modules: Iterable[ModuleType]) -> Rules:
    """Return the rules that these modules declare, by their cause in alphabetical order.

    Raises TypeError for a module without a rule, and for two rules of one cause.
    """
    by_cause: dict[str, Rule] = {}
    for module in modules:
        # A rule that a module imported from another one is not its own.
        declared = [
            value
            for value in vars(module).values()
            if isinstance(value, Rule) and value.look.__module__ == module.__name__
        ]
        if not declared:
            raise TypeError(f"{module.__file__} declares no rule: decorate a function with @rule")
        for rule in declared:
            if rule.cause in by_cause:
                raise TypeError(f"{module.__file__}: there is another rule named {rule.cause}")
            by_cause[rule.cause] = rule
    return dict(sorted(by_cause.items()))


@cache
def shipped() -> Rules:
    """Return the rules in the folder ``rules``."""
    names = (module.name for module in pkgutil.iter_modules(rules.__path__))
    return rules_of(importlib.import_module(f"{rules.__name__}.{name}") for name in names)


@dataclass(frozen=True)
class HostCause:
    """A cause on one host: the rule, its sign there, and where the GPUs are that it is about."""

    host: str
    rule: Rule
    sign: Sign
    places: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """The worst of what it explains and the site does not bear."""
        return worst(finding.outcome for finding in counted(self.sign.explains))


def diagnose(run: Run, judgement: Judgement, rules: Rules) -> Causes:
    """Return what is wrong, as far as rules know; findings that none explains are left to others.

    On a host the likeliest cause comes first, and before what it brings. One whose findings are all
    explained by those before it is not named: it would be a symptom.
    """
    causes: list[HostCause] = []
    explained: dict[Finding, str] = {}
    by_host: dict[str, tuple[str, ...]] = {}
    for plan, record in zip(run.meta.hosts, run.records, strict=True):
        findings = [
            finding
            for finding in judgement.by_host.get(plan.name, ())
            if finding.outcome != "pass" and finding.check not in BESIDE_CHECKS
        ]
        if not findings:
            continue
        of_host = [
            each
            for each in causes_of(findings_of(plan, record, findings), rules)
            if counted(each.sign.explains)  # one that only explains what is waived is known
        ]
        if of_host:
            by_host[plan.name] = tuple(each.rule.cause for each in of_host)
        for each in of_host:
            for finding in each.sign.explains:
                explained.setdefault(finding, each.rule.title)
        causes += of_host
    return Causes(tuple(_folded(causes)), by_host, explained)


def findings_of(plan: HostPlan, record: HostRecord, findings: Iterable[Finding]) -> HostFindings:
    """Return a host as the rules see it; ``findings`` are those that are no pass."""
    readings: dict[tuple[str, str], dict[str, Value]] = {}
    for result in record.report.results if record.report else ():
        for sample in result.samples:
            readings.setdefault((result.check, sample.metric), {})[sample.subject] = sample.value
    legs = tuple(leg for leg in legs_of(record) if leg.backend == "nccl")
    models = node_facts(plan.expect, record).models
    return HostFindings(plan.name, record, tuple(findings), models, readings, legs)


def causes_of(host: HostFindings, rules: Rules) -> Iterator[HostCause]:
    """Yield the causes of one host, the likeliest first, and what one brings after it."""
    signs = ((rule, rule.look(host)) for rule in rules.values())
    causes = [
        HostCause(host.host, rule, sign, tuple(_places(host, sign.explains)))
        for rule, sign in signs
        if sign is not None
    ]
    unexplained = set(host.findings)
    for cause in sorted(causes, key=lambda cause: _place_in_line(cause, causes)):
        if cause.sign.independent or unexplained & set(cause.sign.explains):
            unexplained -= set(cause.sign.explains)
            yield cause


def _place_in_line(cause: HostCause, causes: Iterable[HostCause]) -> tuple[Rank, bool]:
    """Return where a cause stands: by its rank, or after the one that brings it."""
    explains = set(cause.sign.explains)
    bringers = (
        (_rank(other), True)
        for other in causes
        if cause.rule.cause in other.rule.brings
        and other.sign.confidence != CONFIDENCES[-1]
        and explains & set(other.sign.explains)
    )
    return max([(_rank(cause), False), *bringers])


def _places(host: HostFindings, findings: Iterable[Finding]) -> Iterator[str]:
    """Yield where the GPUs are that findings name."""
    gpus = host.record.report.gpus if host.record.report else ()
    return places(gpus, {host.gpu_of(finding.subject) for finding in findings})


def _rank(cause: HostCause) -> Rank:
    return (
        CONFIDENCES.index(cause.sign.confidence),
        OUTCOMES.index(cause.outcome),
        -len(cause.sign.explains),
    )


def _folded(causes: Iterable[HostCause]) -> Iterator[Diagnosis]:
    """Yield one diagnosis for each cause: the gravest first, then the likeliest.

    Of equals that of more hosts comes first, then the one that explains more of one host.
    """
    by_cause: dict[str, list[HostCause]] = {}
    for each in causes:
        by_cause.setdefault(each.rule.cause, []).append(each)
    for members in sorted(by_cause.values(), key=_gravity):
        yield _diagnosis(members)


def _gravity(members: list[HostCause]) -> tuple[int, int, int, int, str]:
    return (
        OUTCOMES.index(worst(each.outcome for each in members)),
        min(CONFIDENCES.index(each.sign.confidence) for each in members),
        -len({each.host for each in members}),
        -max(len(each.sign.explains) for each in members),
        members[0].rule.cause,
    )


def _diagnosis(members: list[HostCause]) -> Diagnosis:
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
        effect=rule.effect,
        fix=rule.fix,
        command=rule.confirm,
        role=rule.role,
        source=rule.source,
    )


def _observed(members: list[HostCause]) -> Iterator[str]:
    """Yield what speaks for a cause, equal lines merged: ``node[01-02]: acs_redirect yes ...``."""
    hosts: dict[str, list[str]] = {}
    for each in members:
        for text in (*in_words(each.sign.explains), *each.sign.observations):
            hosts.setdefault(line(text), []).append(each.host)
    listed = sorted(hosts.items(), key=lambda item: -len(item[1]))
    every = {each.host for each in members}
    for text, names in listed[:OBSERVED_LINES]:
        folded = fold(names)
        if len(folded) > NAMES_CHARACTERS and every == set(names):
            folded = f"all {len(every)} hosts"
        yield f"{folded}: {text}"
    if len(listed) > OBSERVED_LINES:
        yield f"and {len(listed) - OBSERVED_LINES} more, see the hosts"
    places = [f"{line(each.host)}: {text}" for each in members for text in each.places]
    yield from places[:MOST_PLACES]
    if len(places) > MOST_PLACES:
        yield f"and {len(places) - MOST_PLACES} more GPUs, see the hosts"


def in_words(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield findings in words, with the subjects of equal ones folded.

    Checks that could not be measured for one reason are one line. A value that several limits
    refuse is told once, with what one of them says that it should be.
    """
    findings = list(findings)
    figures: dict[tuple[str, str, str], str] = {}
    for finding in findings:
        key = (finding.check, finding.metric, finding.subject)
        if key not in figures or finding.figures or finding.is_held_against_one:
            figures[key] = measured(finding)
    subjects: dict[tuple[str, str, str], list[str]] = {}
    unmeasured: dict[str, list[str]] = {}
    for finding in findings:
        value = f"{line(finding.metric, 80)} "
        value += figures[finding.check, finding.metric, finding.subject]
        value += ", waived" if finding.waived else ""
        parts = (value if finding.metric else "", line(finding.reason.text, REASON_CHARACTERS))
        text = ": ".join(part for part in parts if part)
        if finding.metric:
            names = subjects.setdefault((finding.check, finding.metric, text), [])
            names.append(line(finding.subject, 80))
        else:
            unmeasured.setdefault(text, []).append(finding.check)
    for (check, _, text), names in subjects.items():
        yield f"{check}: {text}{_subjects(names)}"
    for text, blind in unmeasured.items():
        named = [check for check in dict.fromkeys(blind) if check]
        more = f" and {len(named) - MOST_CHECKS} more" if len(named) > MOST_CHECKS else ""
        yield f"{', '.join(named[:MOST_CHECKS])}{more}: {text}" if named else text


def _subjects(names: list[str]) -> str:
    named = list(dict.fromkeys(name for name in names if name != "node"))
    if not named:
        return ""
    if any(" " in name for name in named):
        more = f" and {len(named) - MOST_SUBJECTS} more" if len(named) > MOST_SUBJECTS else ""
        return f" ({', '.join(named[:MOST_SUBJECTS])}{more})"
    return f" ({fold_subjects(named)})"
