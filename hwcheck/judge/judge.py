"""A run in, a judgement out: the fleet, each host by itself, hosts against their peers, verdicts.

Read it from the top: each step is handed what the one before it made, and no judge calls back.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hwcheck import exit_codes
from hwcheck.contract.check import Check
from hwcheck.judge.absence import judge_absence
from hwcheck.judge.between_hosts import judge_between_hosts
from hwcheck.judge.evidence import credible
from hwcheck.judge.expectation import judge_busbw
from hwcheck.judge.fabric import judge_fabric
from hwcheck.judge.fleet import fleet_of, same_machine
from hwcheck.judge.host_case import HostCase, NodeFacts, node_facts
from hwcheck.judge.leg_peers import judge_leg_peers
from hwcheck.judge.limits import Limits
from hwcheck.judge.mnnvl import judge_mnnvl
from hwcheck.judge.multi_host import judge_multi_host, took_part
from hwcheck.judge.neighbors import judge_neighbors
from hwcheck.judge.network import judge_network
from hwcheck.judge.p2p import judge_nccl_default, judge_p2p
from hwcheck.judge.parts import judge_parts
from hwcheck.judge.peers import judge_peers
from hwcheck.judge.published import judge_published
from hwcheck.judge.records import (
    BESIDE_CHECKS,
    Finding,
    HostVerdict,
    Judgement,
    counted,
    worst,
)
from hwcheck.judge.second_opinion import judge_second_opinion
from hwcheck.judge.second_visit import judge_second_visit
from hwcheck.judge.software import judge_floors, judge_nccl_defects
from hwcheck.judge.starts import judge_starts
from hwcheck.judge.training import judge_training, was_trained
from hwcheck.judge.visit import judge_visit
from hwcheck.judge.waivers import waive
from hwcheck.results.multi_host import MultiHostRecord
from hwcheck.results.run_folder import HostPlan, Run
from hwcheck.results.training import TrainingRecord

if TYPE_CHECKING:
    from hwcheck.advise.catalogue import Catalogue
    from hwcheck.judge.past import Past

Judge = Callable[[HostCase], Iterable[Finding]]
"""Yields what it finds of one host."""

REASONS = 3
"""So many of a host's reasons are named in its verdict."""


def judge(
    run: Run,
    catalogue: Catalogue,
    multi_host: MultiHostRecord | None = None,
    past: Past | None = None,
    training: TrainingRecord | None = None,
) -> Judgement:
    """Judge every host of a run against the limits that the checks of a catalogue declare now.

    Of the ``catalogue`` checks and models have a part in it. ``multi_host`` is what was run over
    several hosts, ``past`` what former runs of these hosts measured, ``training`` a training
    benchmark; None where there is none.
    """
    registry = {name: _with_planned_legs(check, run) for name, check in catalogue.checks.items()}
    facts = _shared(
        node_facts(plan.expect, record, plan.limits)
        for plan, record in zip(run.meta.hosts, run.records, strict=True)
    )
    golden = list(_golden_cases(run, registry))
    fleet = fleet_of(
        (*run.records, *(each.record for each in golden)),
        (*facts, *(each.facts for each in golden)),
        registry,
    )
    hosts = list(_host_cases(run, facts, registry, multi_host, training))
    judges: tuple[Judge, ...] = (
        judge_visit,
        Limits(fleet, catalogue.models).judge,
        judge_starts,
        judge_p2p,
        judge_second_opinion,
        judge_busbw,
        partial(judge_second_visit, models=catalogue.models),
        judge_network,
        judge_nccl_default,
        judge_nccl_defects,
        judge_floors,
        judge_parts,
        judge_multi_host,
        judge_mnnvl,
        partial(judge_published, models=catalogue.models),
        judge_training,
    )
    findings = [_by_check(host, judges) for host in hosts]
    by_host = {host.name: (host, of_host) for host, of_host in zip(hosts, findings, strict=True)}
    every, of_every = [*hosts, *golden], [*findings, *([] for _ in golden)]
    for finding in list(judge_peers(every, of_every)):
        if finding.host in by_host:
            host, of_host = by_host[finding.host]
            if host.judges(finding.check, finding.metric):
                of_host.append(finding)
    for compare in (
        judge_absence,
        judge_leg_peers,
        judge_neighbors,
        judge_fabric,
        judge_between_hosts,
    ):
        for finding in list(compare(hosts, findings)):
            host, of_host = by_host[finding.host]
            if host.judges(finding.check, finding.metric):
                of_host.append(finding)
    if past is not None:
        from hwcheck.judge.own_past import (
            judge_own_past,
        )  # not above: numpy takes a tenth of a second

        for finding in list(judge_own_past(run, hosts, findings, past, catalogue.checks)):
            host, of_host = by_host[finding.host]
            if host.judges(finding.check, finding.metric):
                of_host.append(finding)
    marked, waivers = waive(hosts, findings)
    verdicts = list(map(_verdict, hosts, marked))
    fabric = multi_host.fabric if multi_host else ()
    outcome = worst([*(verdict.outcome for verdict in verdicts), "fail" if fabric else "pass"])
    return Judgement(
        outcome,
        exit_codes.BY_OUTCOME[outcome],
        tuple(verdicts),
        tuple(finding for of_host in marked for finding in of_host),
        waivers=waivers,
        fabric=fabric,
    )


def _with_planned_legs(check: Check, run: Run) -> Check:
    """Return a check of legs with those that were asked for, where not all were."""
    legs = run.meta.timing.legs
    return replace(check, legs=legs) if check.legs and legs else check


def _shared(facts: Iterable[NodeFacts]) -> list[NodeFacts]:
    """Return the facts of each host; where they are the same, as one object."""
    distinct: dict[str, NodeFacts] = {}
    return [distinct.setdefault(repr(of_host), of_host) for of_host in facts]


def _host_cases(
    run: Run,
    facts: Sequence[NodeFacts],
    registry: Mapping[str, Check],
    multi_host: MultiHostRecord | None,
    training: TrainingRecord | None,
) -> Iterator[HostCase]:
    machines = same_machine(run)
    planned = {name: registry.get(name) for name in run.meta.checks}
    in_multi_host = frozenset(multi_host.hosts) if multi_host else frozenset()
    for plan, record, of_host in zip(run.meta.hosts, run.records, facts, strict=True):
        answers = {}
        for answer in record.report.results if record.report else ():
            check = registry.get(answer.check)
            answers[answer.check] = credible(check, answer, of_host) if check else answer
        yield HostCase(
            plan=plan,
            record=record,
            facts=of_host,
            checks=planned,
            answers=answers,
            second_visit=run.second_visits.get(plan.name),
            multi_host=multi_host if plan.name in in_multi_host else None,
            training=training if training and plan.name in training.hosts else None,
            same_machine=machines.get(plan.name, ""),
            started=run.meta.started,
        )


def _golden_cases(run: Run, registry: Mapping[str, Check]) -> Iterator[HostCase]:
    """Yield the hosts of an acceptance that hosts like them are held against."""
    planned = {name: registry.get(name) for name in run.meta.checks}
    for record in run.golden:
        facts = node_facts({"golden": True}, record)
        results = record.report.results if record.report else ()
        answers = {each.check: each for each in results if each.check in planned}
        yield HostCase(HostPlan(record.host, record.host), record, facts, planned, answers)


def _by_check(host: HostCase, judges: Iterable[Judge]) -> list[Finding]:
    """Return what all judges find of a host: of its visit, check by check, of runs over hosts.

    What the site wants ignored is left out here, before peers are compared: a complaint that nobody
    reads must not keep the rest of a GPU's figures from being held against those of its peers.
    """
    by_check = defaultdict[str, list[Finding]](list, {name: [] for name in ("", *host.checks)})
    for judge_one in judges:
        for finding in judge_one(host):
            if host.judges(finding.check, finding.metric):
                by_check[finding.check].append(finding)
    return [finding for of_check in by_check.values() for finding in of_check]


def _verdict(host: HostCase, findings: Sequence[Finding]) -> HostVerdict:
    """Return a host's worst outcome and what was covered.

    Runs over hosts count as one check, and training does. What is waived does not count.
    """
    everything, waived = findings, set[tuple[str, str]]()
    if host.plan.waivers:
        waived = {(finding.check, finding.subject) for finding in findings if finding.waived}
        findings = counted(findings)
    answers = host.answers
    states = {name: answers[name].state if name in answers else "lost" for name in host.checks}
    apply = [name for name in states if states[name] != "not_applicable"]
    measured = sum(states[name] == "done" for name in apply)
    skipped = tuple(
        (
            name,
            (answers[name].reason if name in answers else host.record.reason).text or "no answer",
        )
        for name in states
        if states[name] != "done"
    )
    of_checks = worst(finding.outcome for finding in findings if finding.check not in BESIDE_CHECKS)
    gap = ""
    if measured < len(apply) and of_checks in ("pass", "warn"):
        gap = f"{len(apply) - measured} checks gave no answer"
    elif host.not_judged and not everything:
        gap = "hwcheck_limits leaves nothing to judge"
    outcome = worst([*(finding.outcome for finding in findings), "inconclusive" if gap else "pass"])
    beside = [was_trained(host.name, host.training)] if host.training else []
    beside += [took_part(host.name, host.multi_host)] if host.multi_host else []
    return HostVerdict(
        host=host.name,
        outcome=outcome,
        state=host.record.state,
        reason=_reason(findings, outcome, gap if outcome == "inconclusive" else ""),
        asked=len(apply) + len(beside),
        measured=measured + sum(beside),
        not_applicable=len(states) - len(apply),
        skipped=skipped,
        unmeasured=tuple(each for each in skipped if each[0] in apply),
        not_judged=tuple(host.not_judged.items()),
        waived=len(waived),
    )


def _reason(findings: Iterable[Finding], outcome: str, gap: str) -> str:
    """Say in one line why a host's outcome is no pass; ``gap`` is what was not measured."""
    of_checks = {gap: None} if gap else {}
    of_others: dict[str, None] = {}
    for finding in findings if outcome != "pass" else ():
        if finding.outcome != outcome:
            continue
        if finding.check in BESIDE_CHECKS:
            of_others[f"{finding.check}: {finding.reason}"] = None
        else:
            about = f"{finding.check}: {finding.metric} of {finding.subject}"
            of_checks[finding.reason.text or about] = None
    shown = []
    for reasons in (of_checks, of_others):
        more = " ..." if len(reasons) > REASONS else ""
        shown += ["; ".join(list(reasons)[:REASONS]) + more] if reasons else []
    return "; ".join(shown)
