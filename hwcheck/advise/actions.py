"""From findings to actions: what to do, for which hosts, on what evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from hwcheck.advise.causes import diagnose
from hwcheck.advise.multi_host import (
    between_hosts_actions,
    mnnvl_actions,
    multi_host_actions,
    slow_fabric_actions,
)
from hwcheck.advise.nccl_settings import advise_nccl
from hwcheck.advise.records import Action, Advice
from hwcheck.advise.training import training_actions
from hwcheck.advise.visits import alike, visit_actions
from hwcheck.fold import fold, fold_subjects
from hwcheck.judge.records import BESIDE_CHECKS, OUTCOMES, Finding, Judgement
from hwcheck.node import checks
from hwcheck.node.check import Check
from hwcheck.results.multi_host import MultiHostRecord
from hwcheck.results.run_folder import Run
from hwcheck.results.training import TrainingRecord
from hwcheck.text import line, number, quantity

EVIDENCE_LINES = 12
EXACT_LINES = 4
"""With more different values than this, one metric's evidence becomes its range."""

NO_CHECK, NOTHING_APPLIES = "no check applies", "nothing applies"
WHOLE_HOST = "the host as a whole"
"""What actions are about that are about no check, on hosts that gave a whole answer."""

UNMEASURED = (
    (
        NO_CHECK,
        "nothing that was asked for applies: the host has no such hardware, and none is declared",
        "declare hwcheck_gpus if it should have GPUs; otherwise ask for other checks or leave it "
        "out with --limit",
    ),
    ("in use", "the node is at work", "run again when it is idle"),
    (
        "is not idle",
        "somebody computes on a GPU, of this host, a container or a guest",
        "find out who, and run again when it is idle",
    ),
    ("job is running", "the node is at work", "run again when it is idle"),
    (
        "torch",
        "torch is missing or does not run",
        "set hwcheck_torch_python to a Python with torch",
    ),
    ("crashed", "a defect of hwcheck or an unforeseen node", "report it with the host's log"),
    ("not a metric", "the node runs another version of hwcheck", "run again with this version"),
    ("budget", "the time budget ended first", "run again with --profile standard"),
)
"""Words of a reason, what they point at, and how to make the check measurable."""


def advise(
    run: Run,
    judgement: Judgement,
    multi_host: MultiHostRecord | None = None,
    training: TrainingRecord | None = None,
) -> Advice:
    """Return everything that a run tells its operator to do.

    ``multi_host`` is what was run over several hosts, None where nothing was; ``training`` a
    training benchmark.
    """
    causes = diagnose(run, judgement)
    cluster, groups = advise_nccl(run, causes)
    made = actions(run, judgement, causes.explained)
    if multi_host is not None:
        fabric = slow_fabric_actions(judgement.findings)
        mnnvl = mnnvl_actions(judgement.findings)
        between = between_hosts_actions(judgement.findings)
        made = by_urgency((*multi_host_actions(multi_host), *fabric, *mnnvl, *between, *made))
    if training is not None:
        made = by_urgency((*training_actions(judgement.findings), *made))
    return Advice(made, cluster, causes, groups)


def actions(
    run: Run, judgement: Judgement, explained: Mapping[Finding, str] = MappingProxyType({})
) -> tuple[Action, ...]:
    """Return what to do, worst first, then by the number of hosts.

    Failed and warned samples of one check are one action. Checks that could not be measured are
    one action for each reason, because the reason says what to do. ``explained`` are the findings
    that a diagnosis accounts for, with its title. Findings of the runs over several hosts and of
    training have actions of their own (``multi_host.multi_host_actions``, ``training_actions``).
    """
    registry = checks.load()
    outcomes = {verdict.host: verdict.outcome for verdict in judgement.hosts}
    made = visit_actions(run, outcomes)
    silent = {record.host for record in run.records if record.report is None}
    cut_short = {record.host for record in run.records if record.state != "reported"}
    groups: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in judgement.findings:
        if finding.outcome == "pass" or finding.waived or finding.check in BESIDE_CHECKS:
            continue
        if _visit_action_covers(finding, silent, cut_short):
            continue
        reason = alike(finding.reason, [finding.host]) if finding.outcome == "inconclusive" else ""
        groups.setdefault((finding.check, finding.outcome, reason), []).append(finding)
    for (name, outcome, _), findings in groups.items():
        action = _action(registry.get(name), outcome, findings)
        if all(finding in explained for finding in findings):
            titles = dict.fromkeys(explained[finding] for finding in findings)
            action = replace(action, explained_by=tuple(titles))
        made.append(action)
    return by_urgency(made)


def by_urgency(made: Iterable[Action]) -> tuple[Action, ...]:
    """Return actions worst first, then by the number of hosts."""
    return tuple(sorted(made, key=_rank))


def _rank(action: Action) -> tuple[int, int, str]:
    return OUTCOMES.index(action.outcome), -len(action.hosts), action.check


def _visit_action_covers(finding: Finding, silent: set[str], cut_short: set[str]) -> bool:
    """Whether the action about the visit says it all: no answer, or a check never reached."""
    if finding.host in silent or (not finding.check and finding.host in cut_short):
        return True
    return finding.host in cut_short and finding.reason.startswith("not reached")


def _action(check: Check | None, outcome: str, findings: Sequence[Finding]) -> Action:
    hosts = tuple(dict.fromkeys(finding.host for finding in findings))
    cause, fix, command, role = "", "", "", ""
    if outcome == "inconclusive":
        cause, fix = _how_to_measure(findings[0].reason)
    if check is not None:
        command, role = check.remedy.command, check.remedy.role
        cause, fix = cause or check.remedy.cause, fix or check.remedy.fix
    return Action(
        check=findings[0].check,
        outcome=outcome,
        cause=cause or "not known: this version of hwcheck has no such check",
        fix=fix or "look at the evidence",
        command=command,
        role=role,
        hosts=hosts,
        evidence=_evidence(findings),
        title=findings[0].check or _about(findings[0].reason),
    )


def _about(reason: str) -> str:
    return NOTHING_APPLIES if NO_CHECK in reason else WHOLE_HOST


def _how_to_measure(reason: str) -> tuple[str, str]:
    for words, cause, fix in UNMEASURED:
        if words in reason:
            return cause, fix
    return "it could not be measured", "mend what the evidence names and run again"


def _evidence(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Merge equal evidence; a metric with many different values is given as its range."""
    by_metric: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        key = (finding.metric, finding.unit, alike(finding.reason, [finding.host]))
        by_metric.setdefault(key, []).append(finding)
    lines = [text for members in by_metric.values() for text in _metric_lines(members)]
    if len(lines) > EVIDENCE_LINES:
        more = len(lines) - EVIDENCE_LINES
        lines = [*lines[:EVIDENCE_LINES], f"and {more} more, see the hosts"]
    return tuple(lines)


def _metric_lines(findings: Sequence[Finding]) -> Iterator[str]:
    exact: dict[str, list[Finding]] = {}
    for finding in findings:
        exact.setdefault(_statement(finding), []).append(finding)
    if len(exact) <= EXACT_LINES:
        for text, members in exact.items():
            yield f"{_where(members)}: {text}"
        return
    values = [f.value for f in findings if isinstance(f.value, int | float)]
    if len(values) < len(findings):
        text, members = next(iter(exact.items()))
        yield f"{_where(members)}: {text}; and {len(exact) - 1} alike"
        return
    low, high = number(min(values)), number(max(values))
    unit = line(findings[0].unit, 40)
    name = line(findings[0].metric, 80)
    yield f"{_where(findings)}: {name} {low} to {high} {unit}; {_limit(findings[0])}"


def _statement(finding: Finding) -> str:
    parts = []
    if finding.metric:
        parts.append(f"{line(finding.metric, 80)} {quantity(finding.value, finding.unit)}")
    if finding.reason:
        parts.append(line(finding.reason))
    if finding.limit:
        parts.append(_limit(finding))
    return "; ".join(parts) or finding.outcome


def _limit(finding: Finding) -> str:
    source = f"; source: {line(finding.source)}" if finding.source else ""
    confidence = f" ({line(finding.confidence, 40)})" if finding.confidence else ""
    return f"limit: {line(finding.limit)}{source}{confidence}"


def _where(findings: Iterable[Finding]) -> str:
    """Return ``gpu[0-7] on node[01-02], gpu3 on node05``."""
    subjects: dict[str, list[str]] = {}
    for finding in findings:
        subjects.setdefault(finding.host, []).append(line(finding.subject, 80))
    by_subjects: dict[str, list[str]] = {}
    for host, names in subjects.items():
        named = [name for name in names if name != "node"]
        by_subjects.setdefault(fold_subjects(named), []).append(host)
    few = [(names, fold(hosts)) for names, hosts in _few(by_subjects)]
    return ", ".join(f"{names} on {hosts}" if names else hosts for names, hosts in few)


def _few(groups: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    yield from ordered[:6]
    rest = [host for _, hosts in ordered[6:] for host in hosts]
    if rest:
        yield "others", rest
