"""The cases of checks and of rules: what a node says, and what has to come of it.

A case of a check has ``CHECK_KEYS`` (``docs/adding-a-check.md``), one of a rule some of
``RULE_KEYS`` (``docs/diagnosis.md``). A site's lie in ``tests/checks/<check>/*.json`` and in
``tests/rules/*.yml``, keyed by cause, of its folder.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hwcheck import shipped
from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import Catalogue
from hwcheck.advise.causes import diagnose
from hwcheck.advise.records import CONFIDENCES
from hwcheck.advise.rule import Rule
from hwcheck.contract.check import Check
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult, Report, Sample, to_dict
from hwcheck.errors import UsageError
from hwcheck.judge.evidence import credible
from hwcheck.judge.host_case import NodeFacts
from hwcheck.judge.judge import judge
from hwcheck.judge.limits import judge_answer
from hwcheck.judge.models import Models
from hwcheck.judge.p2p import p2p_gains
from hwcheck.judge.records import worst
from hwcheck.node.main import run_check
from hwcheck.report.html import html
from hwcheck.report.markdown import markdown
from hwcheck.results.run_folder import HostPlan, HostRecord, Run, RunMeta
from hwcheck.results.schema_check import schema_problem
from hwcheck.site.additions import Additions, faults_of
from hwcheck.site.folder import CASES
from hwcheck.testing.fake_node import FakeNode

CHECK_KEYS = {"doc", "node", "expect_inventory", "result", "outcomes"}
RESULT_KEYS = {"state", "code", "reason_contains", "samples"}
RULE_KEYS = {
    *("doc", "confidence", "explains", "observed", "first"),  # what must come of it
    *("samples", "unmeasured", "gpus", "expect", "cpu"),  # what the node is
}
LEAST_SOURCE = 15
"""So many characters a limit's source has at least."""
LEAST_TEXT = 12
"""So many characters each text of a rule has at least."""
GPU_NAME = "NVIDIA H100 80GB HBM3"
"""The GPUs of a rule's cases."""
HOST = "node1"

Case = Mapping[str, Any]


@dataclass(frozen=True)
class CaseResults:
    """What came of a site's cases: how many there are, and what is wrong, a line each."""

    cases: int
    problems: tuple[str, ...]


def run_cases(additions: Additions) -> CaseResults:
    """Run the cases of what a site adds, and say what it lacks of what an operator needs.

    Raises UsageError for cases that cannot be read.
    """
    folder, catalogue = additions.site.path / CASES, additions.catalogue
    with faults_of(additions.site):
        of_checks = {file: _read(file) for file in sorted(folder.glob("checks/*/*.json"))}
        of_rules = {file: _read(file) for file in sorted(folder.glob("rules/*.yml"))}
        problems = [*_of_checks(additions, of_checks), *_of_rules(additions, of_rules)]
        records = [
            record_of(f"{cause}-{number}", case, catalogue.checks)
            for _, cause, kinds in _by_cause(of_rules)
            for number, case in enumerate(_listed(kinds))
            if not rule_case_problem(additions.rules.get(cause), "", case, catalogue)
        ]
        if additions.templates and not problems:
            _render(records, catalogue)
    of_causes = sum(len(list(_listed(kinds))) for _, _, kinds in _by_cause(of_rules))
    return CaseResults(len(of_checks) + of_causes, tuple(problems))


def _of_checks(additions: Additions, cases: Mapping[Path, Any]) -> Iterator[str]:
    by_check: dict[str, list[Case]] = {name: [] for name in additions.checks}
    for file, case in cases.items():
        if file.parent.name not in by_check:
            yield f"{file}: the site has no check named {file.parent.name}"
            continue
        problem = check_case_problem(
            additions.checks[file.parent.name], case, additions.catalogue.models
        )
        if problem:
            yield f"{file}: {problem}"
        else:
            by_check[file.parent.name].append(case)
    for name, good in by_check.items():
        lacks = missing(additions.checks[name], good)
        if lacks:
            yield f"{additions.site.path / 'checks' / name}.py: it lacks: {', '.join(lacks)}"


def _of_rules(additions: Additions, cases: Mapping[Path, Any]) -> Iterator[str]:
    with_cases = {cause for _, cause, _ in _by_cause(cases)}
    for file, by_cause in cases.items():
        if not isinstance(by_cause, dict):
            yield f"{file}: name each rule, with its cases under fires and silent"
    for file, cause, kinds in _by_cause(cases):
        rule = additions.rules.get(cause)
        if rule is None:
            yield f"{file}: the site has no rule named {cause}"
            continue
        for kind in ("fires", "silent"):
            listed = kinds.get(kind) if isinstance(kinds, dict) else None
            if not isinstance(listed, list) or not listed:
                yield f"{file}: {cause}: no case under {kind}"
                continue
            for case in listed:
                problem = rule_case_problem(rule, kind, case, additions.catalogue)
                if problem:
                    doc = case.get("doc") if isinstance(case, dict) else ""
                    yield f"{file}: {cause}: {kind}: {doc or case}: {problem}"
    for cause, rule in additions.rules.items():
        lacks = [*rule_lacks(rule), *([] if cause in with_cases else ["cases"])]
        if lacks:
            yield f"{additions.site.path / 'rules'}: {cause}: it lacks: {', '.join(lacks)}"


def check_case_problem(check: Check, case: Any, models: Models) -> str:
    """Return where what a check makes of a case's node is not what the case says, or nothing."""
    if not isinstance(case, dict) or set(case) != CHECK_KEYS:
        return f"a case has exactly {', '.join(sorted(CHECK_KEYS))}"
    try:
        node = FakeNode(case["node"], case["expect_inventory"])
        result = run_check(check, node)
    except (AssertionError, TypeError, KeyError, AttributeError) as error:
        return f"node: {type(error).__name__}: {error}"
    answer = f"{result.state}{f': {result.reason}' if result.reason else ''}"
    wanted = case["result"]
    if not isinstance(wanted, dict) or not {"state"} <= set(wanted) <= RESULT_KEYS:
        return f"result: it has a state and any of {', '.join(sorted(RESULT_KEYS - {'state'}))}"
    problem = schema_problem(to_dict(result), "result")
    if problem:
        return f"what the check yields cannot be recorded: {problem}"
    part_of_reason = str(wanted.get("reason_contains", ""))
    code = wanted.get("code", result.reason.code)
    if (result.state, result.reason.code) != (
        wanted["state"],
        code,
    ) or part_of_reason not in result.reason.text:
        return f"result: it is {answer}, and the case says {json.dumps(wanted)[:300]}"
    if "samples" in wanted:
        try:
            samples = [Sample(**sample) for sample in wanted["samples"]]
        except TypeError as error:
            return f"result: samples: {error}"
        if list(result.samples) != samples:
            return f"samples: they are {[to_dict(sample) for sample in result.samples]}"
    facts = NodeFacts(case["expect_inventory"], gpu_models(case["node"]), mig=has_mig(case["node"]))
    # What an honest node answers must never be doubted.
    doubted = credible(check, result, facts)
    if doubted != result:
        return f"result: the judge would not believe it: {doubted.reason}"
    judged = outcomes(check, result, facts, models)
    if judged != case["outcomes"]:
        return f"outcomes: they are {json.dumps(judged)}"
    return ""


def outcomes(check: Check, result: CheckResult, facts: NodeFacts, models: Models) -> dict[str, str]:
    """Return the worst outcome by ``metric subject``; a finding with no metric is ``node``."""
    by_key: dict[str, list[str]] = {}
    gains = p2p_gains(HOST, check.id, result.legs)
    for finding in (*judge_answer(HOST, check, result, facts, models), *gains):
        key = f"{finding.metric} {finding.subject}".strip()
        by_key.setdefault(key, []).append(finding.outcome)
    return {key: worst(several) for key, several in by_key.items()}


def has_mig(says: Case) -> bool:
    """Return whether the node's facts would name a GPU with MIG on."""
    modes = [(says.get("gpu", {}) | gpu).get("mig_mode") for gpu in says.get("gpus", [])]
    return any(mode["current"] for mode in modes if mode and "current" in mode)


def gpu_models(says: Case) -> dict[str, str]:
    """Return what the node's facts would name: the model of each GPU, by its subject."""
    common = says.get("gpu", {})
    return {
        f"gpu{index}": (common | gpu).get("name", "")
        for index, gpu in enumerate(says.get("gpus", []))
        if says.get("nvml_status", "ok") == "ok"
    }


def missing(check: Check, cases: Sequence[Case]) -> list[str]:
    """Return what a check lacks to be one that an operator can rely on."""
    limits = [limit for metric in check.metrics for limit in metric.limits]
    judged = [worst(case["outcomes"].values()) for case in cases if case["outcomes"]]
    there = {
        "docstring": len(check.doc.split("\n\n")) >= 2,
        "remedy": all((check.remedy.cause, check.remedy.fix, check.remedy.command)),
        "limit": bool(limits),
        "source": all(len(limit.source) >= LEAST_SOURCE for limit in limits),
        "meaning": all(metric.meaning for metric in check.metrics),
        "passing case": "pass" in judged,
        "failing case": bool({"fail", "warn"} & set(judged)),
        "role that exists": not check.remedy.role or shipped.find(f"roles/{check.remedy.role}"),
        "doc of a case": all(case["doc"] for case in cases),
        "case without what is optional": not check.optional
        or any(case["result"]["state"] == "not_applicable" for case in cases),
    }
    return [name for name, is_there in there.items() if not is_there]


def rule_case_problem(rule: Rule | None, kind: str, case: Any, catalogue: Catalogue) -> str:
    """Return where a rule does not speak up, or be silent, as a case says, or nothing.

    ``kind`` is ``fires``, ``silent``, or empty: then only the case itself is looked at.
    """
    if not isinstance(case, dict) or not set(case) <= RULE_KEYS or not case.get("doc"):
        return f"a case has doc and any of {', '.join(sorted(RULE_KEYS - {'doc'}))}"
    explains, observed = case.get("explains", []), case.get("observed", "")
    if not isinstance(explains, list) or not isinstance(observed, str):
        return "explains is a list of checks, and observed a text"
    try:
        record = record_of(HOST, case, catalogue.checks)
        run = run_of(record, expect=case.get("expect", {}))
        causes = diagnose(run, judge(run, catalogue), catalogue.rules)
    except (ValueError, TypeError, AttributeError) as error:
        return f"{type(error).__name__}: {error}"
    if not kind or rule is None:
        return ""
    named = causes.by_host.get(HOST, ())
    if kind == "silent":
        return "it speaks up" if rule.cause in named else ""
    if rule.cause not in named or (case.get("first", True) and named[0] != rule.cause):
        return f"it does not come first: {', '.join(named) or 'no cause is named'}"
    (diagnosis,) = (each for each in causes.diagnoses if each.cause == rule.cause)
    if case.get("confidence") not in CONFIDENCES or diagnosis.confidence != case["confidence"]:
        return f"confidence: it is {diagnosis.confidence}"
    if any(check not in diagnosis.explains for check in explains):
        return f"explains: it is {', '.join(diagnosis.explains)}"
    if not any(observed in text for text in diagnosis.observed):
        return f"observed: it is {'; '.join(diagnosis.observed)}"
    return ""


def rule_lacks(rule: Rule) -> list[str]:
    """Return what a rule lacks of what an operator needs."""
    texts = {
        "title": rule.title,
        "effect": rule.effect,
        "fix": rule.fix,
        "confirm": rule.confirm,
        "source": rule.source,
    }
    lacks = [name for name, text in texts.items() if len(text) < LEAST_TEXT or text != text.strip()]
    lacks += [name for name, text in texts.items() if text.endswith(".")]
    if rule.role and shipped.find(f"roles/{rule.role}") is None:
        lacks.append("role")
    return lacks


def record_of(host: str, case: Case, checks: Mapping[str, Check]) -> HostRecord:
    """Return a node that answered what a rule's case says.

    ``samples`` by check and metric: a value of the node, or values by subject; ``unmeasured`` the
    reasons of checks that could not be measured; ``gpus`` how many (2), ``cpu`` the vendor. Raises
    ValueError for a check or a metric that there is not.
    """
    answers = [
        answer_of(check, metrics, checks) for check, metrics in case.get("samples", {}).items()
    ]
    answers += [
        CheckResult(check, "could_not_measure", Reason.from_json(reason))
        for check, reason in case.get("unmeasured", {}).items()
    ]
    gpus = [
        {"index": index, "name": GPU_NAME, "uuid": f"GPU-{host}-{index}"}
        for index in range(case.get("gpus", 2))
    ]
    facts = {"hostname": host, "cpu_vendor": case.get("cpu", ""), "gpus": gpus}
    return HostRecord(host, "reported", report=Report(facts, tuple(answers), 1.0))


def answer_of(check: str, metrics: Case, checks: Mapping[str, Check]) -> CheckResult:
    """Return a check's answer from samples by metric. Raises ValueError."""
    declared = checks.get(check)
    samples = []
    for name, values in metrics.items():
        metric = declared.metric(name) if declared else None
        if metric is None:
            raise ValueError(f"there is no metric {check}.{name}")
        by_subject = values if isinstance(values, dict) else {"node": values}
        samples += [Sample(name, v, metric.unit, subject) for subject, v in by_subject.items()]
    return CheckResult(check, "done", samples=tuple(samples))


def run_of(*records: HostRecord, expect: Case | None = None) -> Run:
    """Return a finished run of these records."""
    reports = [record.report for record in records if record.report]
    names = {answer.check for report in reports for answer in report.results}
    meta = RunMeta(
        id="cases",
        started="2026-01-31T12:00:00Z",
        checks=tuple(sorted(names)),
        hosts=tuple(HostPlan(record.host, "127.0.0.1", expect or {}) for record in records),
        finished="2026-01-31T12:01:00Z",
    )
    return Run(Path("cases"), meta, records)


def _render(records: Sequence[HostRecord], catalogue: Catalogue) -> None:
    """Render a report of these nodes, as the site's templates have it. Raises what they raise."""
    run = run_of(*(records or [record_of(HOST, {}, catalogue.checks)]))
    assessment = assess(run, catalogue)
    html(assessment)
    markdown(assessment)


def _by_cause(cases: Mapping[Path, Any]) -> Iterator[tuple[Path, str, Any]]:
    """Yield the file, the cause and the cases of each rule that files name."""
    for file, by_cause in cases.items():
        for cause, kinds in by_cause.items() if isinstance(by_cause, dict) else ():
            yield file, str(cause), kinds


def _listed(kinds: Any) -> Iterator[Any]:
    for kind in ("fires", "silent"):
        listed = kinds.get(kind) if isinstance(kinds, dict) else None
        yield from listed if isinstance(listed, list) else ()


def _read(file: Path) -> Any:
    try:
        return yaml.safe_load(file.read_text("utf-8"))
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise UsageError(f"{file}: cannot be read: {' '.join(str(error).split())}") from None
