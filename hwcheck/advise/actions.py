"""From findings to actions: what to do, for which hosts, on what evidence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from hwcheck.advise.catalogue import Catalogue
from hwcheck.advise.causes import diagnose
from hwcheck.advise.multi_host import (
    between_hosts_actions,
    mnnvl_actions,
    multi_host_actions,
    slow_fabric_actions,
)
from hwcheck.advise.nccl_settings import advise_nccl
from hwcheck.advise.places import places
from hwcheck.advise.records import Action, Advice
from hwcheck.advise.remedies import REMEDY_OF, ReasonRemedy
from hwcheck.advise.training import training_actions
from hwcheck.advise.visits import alike, visit_actions
from hwcheck.contract.check import Check
from hwcheck.contract.reasons import NOT_MEASURED, NOT_REACHED, NOTHING_APPLIES, Reason
from hwcheck.contract.wire import GpuFacts
from hwcheck.fold import fold, fold_subjects
from hwcheck.judge.figures import measured
from hwcheck.judge.records import BESIDE_CHECKS, OUTCOMES, Finding, Judgement
from hwcheck.results.multi_host import MultiHostRecord
from hwcheck.results.run_folder import Run
from hwcheck.results.training import TrainingRecord
from hwcheck.text import line, number

EVIDENCE_LINES = 12
MOST_PLACES = 8
TITLE_CHECKS = 3
EXACT_LINES = 4
"""With more different values than this, one metric's evidence becomes its range."""

NO_HARDWARE = "nothing applies"
WHOLE_HOST = "the host as a whole"
"""What actions are about that are about no check, on hosts that gave a whole answer."""


def advise(
    run: Run,
    judgement: Judgement,
    catalogue: Catalogue,
    multi_host: MultiHostRecord | None = None,
    training: TrainingRecord | None = None,
) -> Advice:
    """Return everything that a run tells its operator to do.

    ``multi_host`` is what was run over several hosts, None where nothing was; ``training`` a
    training benchmark.
    """
    causes = diagnose(run, judgement, catalogue.rules)
    cluster, groups = advise_nccl(run, causes)
    made = actions(run, judgement, catalogue.checks, causes.explained)
    if multi_host is not None:
        fabric = slow_fabric_actions(judgement.not_passed)
        mnnvl = mnnvl_actions(judgement.not_passed)
        between = between_hosts_actions(judgement.not_passed)
        made = by_urgency((*multi_host_actions(multi_host), *fabric, *mnnvl, *between, *made))
    if training is not None:
        made = by_urgency((*training_actions(judgement.not_passed), *made))
    return Advice(made, cluster, causes, groups)


def actions(
    run: Run,
    judgement: Judgement,
    checks: Mapping[str, Check],
    explained: Mapping[Finding, str] = MappingProxyType({}),
) -> tuple[Action, ...]:
    """Return what to do, worst first, then by the number of hosts.

    Failed and warned samples of one check are one action. Checks that could not be measured for
    one reason are one action, because the reason says what to do. ``explained`` are the findings
    that a diagnosis accounts for, with its title. Findings of the runs over several hosts and of
    training have actions of their own (``multi_host.multi_host_actions``, ``training_actions``).
    """
    outcomes = {verdict.host: verdict.outcome for verdict in judgement.hosts}
    made = visit_actions(run, outcomes)
    silent = {record.host for record in run.records if record.report is None}
    cut_short = {record.host for record in run.records if record.state != "reported"}
    gpus = {record.host: record.report.gpus for record in run.records if record.report}
    groups: dict[tuple[str, ...], list[Finding]] = {}
    for finding in judgement.not_passed:
        if finding.waived or finding.check in BESIDE_CHECKS:
            continue
        if _visit_action_covers(finding, silent, cut_short):
            continue
        groups.setdefault(_concern(finding), []).append(finding)
    for findings in groups.values():
        action = _action(checks, findings, _places(gpus, findings))
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
    return finding.host in cut_short and finding.reason.code == NOT_REACHED


def _concern(finding: Finding) -> tuple[str, ...]:
    """Return what findings have in common that are one action."""
    if finding.outcome != "inconclusive":
        return finding.outcome, finding.check
    remedy = _remedy_of(finding.reason)
    same = alike(finding.reason.text, [finding.host]) if remedy.by_text else finding.reason.code
    return finding.outcome, same, "" if finding.check else WHOLE_HOST


def _places(gpus: Mapping[str, Sequence[GpuFacts]], findings: Iterable[Finding]) -> list[str]:
    """Return where the GPUs are that findings name, as far as a list can be read."""
    named: dict[str, set[str]] = {}
    for finding in findings:
        named.setdefault(finding.host, set()).add(finding.subject)
    lines = [
        f"{host}: {text}"
        for host, subjects in named.items()
        for text in places(gpus.get(host, ()), subjects)
    ]
    more = len(lines) - MOST_PLACES
    return [*lines[:MOST_PLACES], *([f"and {more} more GPUs, see the hosts"] if more > 0 else [])]


def _action(
    registry: Mapping[str, Check], findings: Sequence[Finding], where: Sequence[str]
) -> Action:
    outcome, names = findings[0].outcome, tuple(dict.fromkeys(f.check for f in findings))
    check = registry.get(names[0]) if len(names) == 1 else None
    cause, fix, command, role = "", "", "", ""
    if outcome == "inconclusive":
        remedy = _remedy_of(findings[0].reason)
        cause, fix, command, role = remedy.cause, remedy.fix, remedy.command, remedy.role
        if remedy.by_text and not command and check is not None:
            command = check.remedy.command
    elif check is not None:
        cause, fix = check.remedy.cause, check.remedy.fix
        command, role = check.remedy.command, check.remedy.role
    return Action(
        check=names[0] if len(names) == 1 else "",
        outcome=outcome,
        cause=cause or "not known: this version of hwcheck has no such check",
        fix=fix or "look at the evidence",
        command=command,
        role=role,
        hosts=tuple(dict.fromkeys(finding.host for finding in findings)),
        evidence=(*_evidence(findings), *where),
        title=_title(names, findings[0].reason),
        checks=names,
    )


def _title(checks: Sequence[str], reason: Reason) -> str:
    if len(checks) > 1:
        more = f" and {len(checks) - TITLE_CHECKS} more" if len(checks) > TITLE_CHECKS else ""
        named = ", ".join(checks[:TITLE_CHECKS])
        return f"{len(checks)} checks could not be measured: {named}{more}"
    return checks[0] or (NO_HARDWARE if reason.code == NOTHING_APPLIES else WHOLE_HOST)


def _remedy_of(reason: Reason) -> ReasonRemedy:
    return REMEDY_OF.get(reason.code, REMEDY_OF[NOT_MEASURED])


def _evidence(findings: Iterable[Finding]) -> tuple[str, ...]:
    """Merge equal evidence; a metric with many different values is given as its range."""
    by_metric: dict[tuple[str, str, str], list[Finding]] = {}
    for finding in findings:
        key = (finding.metric, finding.unit, alike(finding.reason.text, [finding.host]))
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
        parts.append(f"{line(finding.metric, 80)} {measured(finding)}")
    if finding.reason:
        parts.append(line(finding.reason.text))
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
