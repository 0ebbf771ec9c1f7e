"""Whether an answer is one that this node can give, what it lacks, and which legs count. Pure.

A limit judges what is there. A node that leaves something out, by a defect of its own or of ours,
must not pass by it; nor is a leg that was not what it says evidence about the node's GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hwcheck.checks.gpu_count import (
    CONTAINER_GPUS,
    NVML_GPUS,
    PCI_GPUS,
    SEEN_BY_NVML,
    gpu_count,
)
from hwcheck.contract import reasons
from hwcheck.contract.check import WITHOUT_MIG, Check, Metric
from hwcheck.contract.limits import Equal, FromInventory
from hwcheck.contract.reasons import NONE, Reason
from hwcheck.contract.wire import CheckResult, Leg, Sample
from hwcheck.judge.host_case import NodeFacts, gpus_of
from hwcheck.judge.legs import leg_problem, planned_env, start_hang
from hwcheck.node.gpus import NO_VGPU
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import count, line

NVML_COUNTS = (NVML_GPUS.name, CONTAINER_GPUS.name)
"""Metrics of gpu_count that NVML's facts must agree with."""

ANSWERED = ("reported", "partial")
"""States of a host whose answers may count."""


@dataclass(frozen=True)
class LegEvidence:
    """The legs of one collective by name, and by name why a leg does not count."""

    collective: str
    legs: Mapping[str, Leg] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


def miscounted(facts: NodeFacts) -> str:
    """Return what is wrong with the number of GPUs that the node names, or an empty text."""
    declared = facts.expect.get("gpus")
    if declared is None or not facts.whole or declared == len(facts.models):
        return ""
    return f"the node names {len(facts.models)} GPUs and hwcheck_gpus says {declared}"


def contradictions(record: HostRecord, facts: NodeFacts) -> Iterator[Reason]:
    """Yield where the GPUs that a whole report names cannot be those that it speaks of."""
    if miscounted(facts):
        yield Reason(reasons.COUNT_IN_DOUBT, miscounted(facts))
    for result in record.report.results if record.report else ():
        if result.check == gpu_count.id:
            for doubt in _miscounts(result, facts):
                yield Reason(reasons.COUNT_IN_DOUBT, doubt)
    owners: dict[str, str] = {}
    for number, gpu in enumerate(gpus_of(record)):
        subject = f"gpu{number if gpu.index is None else gpu.index}"
        if not gpu.uuid:
            text = f"{subject} has no identifier: {gpu.error or 'it tells none'}"
            yield Reason(reasons.NO_IDENTIFIER, text)
        elif owners.setdefault(gpu.uuid, subject) != subject:
            text = f"{owners[gpu.uuid]} and {subject} have one identifier"
            yield Reason(reasons.SAME_IDENTIFIER, text)


def _miscounts(result: CheckResult, facts: NodeFacts) -> Iterator[str]:
    counts = {sample.metric: sample.value for sample in result.samples}
    by_nvml = [counts[name] for name in NVML_COUNTS if name in counts]
    for gpus in by_nvml:
        if gpus != len(facts.models):
            yield f"NVML counts {gpus} GPUs and the node names {len(facts.models)}"
    if result.state == "done" and not by_nvml:
        yield "gpu_count is done and holds no count of NVML"
    looked_at = sum(sample.metric == SEEN_BY_NVML.name for sample in result.samples)
    if counts.get(PCI_GPUS.name, looked_at) != looked_at:
        yield f"{counts[PCI_GPUS.name]} GPUs are on the bus and NVML was asked for {looked_at}"


def credible(check: Check, result: CheckResult, facts: NodeFacts) -> CheckResult:
    """Return the answer, as one that could not be measured where it cannot be true.

    A node that lacks the things of which the inventory declares some has counted none.
    """
    if result.state != "not_applicable":
        return result
    counts = list(_declared_counts(check, facts.expect))
    if check.optional and counts:
        samples = (Sample(metric.name, 0, metric.unit) for metric in counts)
        return replace(result, samples=tuple(samples))
    doubt = _doubt(check, facts)
    if not doubt:
        return result
    text = f"{doubt}, but the node says not applicable: {result.reason}"
    return replace(result, state="could_not_measure", reason=Reason(doubt.code, text))


def _doubt(check: Check, facts: NodeFacts) -> Reason:
    declared = [name for name in _declared(check, facts.expect) if facts.expect[name]]
    if declared:
        return Reason(reasons.IMPLAUSIBLE, f"hwcheck_{declared[0]} is declared")
    if check.optional and (check.optional != WITHOUT_MIG or facts.mig):
        return NONE
    if not check.gpu:
        return Reason(reasons.IMPLAUSIBLE, "it applies to every node")
    if not facts.gpus:
        return NONE
    return Reason(reasons.COUNT_IN_DOUBT, f"the node has {facts.gpus} GPUs")


def omissions(check: Check, result: CheckResult, facts: NodeFacts) -> Iterator[tuple[str, Reason]]:
    """Yield what an answer that claims to be done lacks, as subject and reason."""
    for name, metrics in _declared(check, facts.expect).items():
        if not any(sample.metric in metrics for sample in result.samples):
            text = f"hwcheck_{name} is declared and nothing was sent to hold against it"
            yield "node", Reason(reasons.NOT_ANSWERED, text)
    for subject, text in _silent(check, result, facts):
        yield subject, Reason(reasons.NOT_ANSWERED, text)
    if check.legs:
        yield from _leg_omissions(check, result, facts)


def _declared(check: Check, expect: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the metrics by the declared expectation that they are held against."""
    metrics: dict[str, set[str]] = {}
    for metric in check.metrics:
        for limit in metric.limits:
            if isinstance(limit.operand, FromInventory) and limit.operand.name in expect:
                metrics.setdefault(limit.operand.name, set()).add(metric.name)
    return metrics


def _declared_counts(check: Check, expect: Mapping[str, Any]) -> Iterator[Metric]:
    """Yield the metrics of which the inventory declares how many there are, if any."""
    for metric in check.metrics:
        for limit in metric.limits:
            wanted = limit.operand
            if not (isinstance(limit, Equal) and isinstance(wanted, FromInventory)):
                continue
            if metric.unit and expect.get(wanted.name):
                yield metric


def _silent(check: Check, result: CheckResult, facts: NodeFacts) -> Iterator[tuple[str, str]]:
    """Yield which required metrics are missing: of every GPU where the check is of GPUs."""
    required = [metric.name for metric in check.metrics if metric.required]
    sent = {(sample.metric, sample.subject) for sample in result.samples}
    if not check.per_gpu:
        for name in required:
            if name not in {metric for metric, _ in sent}:
                yield "node", f"the node sent no {name}"
        return
    if not facts.models and facts.whole:
        yield "node", "the node names no GPU that this could be of"
    subjects = {subject for _, subject in sent}
    models = {facts.models[gpu] for gpu in subjects & facts.models.keys()}
    without = dict(gpus_without(check, result, facts))
    for gpu, model in facts.models.items():
        # What is optional, GPUs of one model have alike.
        if (check.optional and model not in models) or gpu in without:
            continue
        missing = [name for name in required if (name, gpu) not in sent]
        if missing or gpu not in subjects:
            yield gpu, f"the node sent no {' and no '.join(missing) or 'sample'} of this GPU"


def gpus_without(check: Check, result: CheckResult, facts: NodeFacts) -> Iterator[tuple[str, str]]:
    """Yield each GPU that lacks what is optional and half of its model or more have, with counts.

    Such a GPU gives nothing of the check: what it leaves out of an answer is an omission. So it is
    where the inventory declares the thing, and of checks that every whole board answers.
    """
    of_each_board = check.load or check.after_load or check.optional in ("", NO_VGPU, WITHOUT_MIG)
    if of_each_board or not check.per_gpu or _declared(check, facts.expect):
        return
    subjects = {sample.subject for sample in result.samples}
    for gpu, model in facts.models.items():
        alike = [other for other, its in facts.models.items() if its == model]
        have = sum(other in subjects for other in alike)
        if gpu not in subjects and 2 * have >= len(alike):
            yield gpu, f"{have} of {len(alike)}"


def _leg_omissions(
    check: Check, result: CheckResult, facts: NodeFacts
) -> Iterator[tuple[str, Reason]]:
    legs = {leg.leg: leg for leg in result.legs if leg.collective == check.id}
    # One GPU has no peer to reach in several ways: the default is all that it can show.
    alone = facts.gpus == 1 and "default" in check.legs
    for name in ("default",) if alone else check.legs:
        missing = Reason(reasons.NOT_ANSWERED, "the leg was not reported")
        reason = _leg_omission(legs[name], result.legs, facts) if name in legs else missing
        if reason:
            yield f"leg {name}", reason


def _leg_omission(leg: Leg, legs: Sequence[Leg], facts: NodeFacts) -> Reason:
    if leg.state == "not_started" and not start_hang(leg, legs):
        return _given(leg).about("the leg did not start")
    if leg.state == "not_run":
        return _given(leg).about("the leg was not run")
    if leg.state == "not_engaged":
        return _given(leg).about("the leg did not use what it is to measure")
    if leg.state != "done":
        return NONE  # leg_state says so
    over_all_gpus = leg.backend == "nccl" and not leg.exercise and leg.ranks == facts.gpus
    if facts.gpus and not over_all_gpus:
        text = f"{leg.ranks} ranks of {leg.backend} say nothing about {facts.gpus} GPUs"
        return Reason(reasons.COUNT_IN_DOUBT, text)
    problem = leg_problem(leg, planned_env(leg.leg))
    return Reason(reasons.IMPLAUSIBLE, problem) if problem else NONE


def _given(leg: Leg) -> Reason:
    return leg.reason or Reason(reasons.NOT_MEASURED, "no reason given")


def counted(record: HostRecord, facts: NodeFacts, double: str = "") -> Sequence[LegEvidence]:
    """Return what counts of a host's NCCL legs, one record for each collective that it reports.

    A leg counts as part of a whole answer of the check that is named as its collective, on every
    GPU that the host names, where nothing speaks against the host: neither what it says of its
    GPUs nor ``double``, why it may be the same machine as another (``fleet.same_machine``).
    """
    doubt = double or _host_doubt(record, facts)
    legs: dict[str, dict[str, Leg]] = {}
    problems: dict[str, dict[str, str]] = {}
    for result, leg in _nccl_legs(record):
        named = legs.setdefault(leg.collective, {})
        faults = problems.setdefault(leg.collective, {})
        hang = start_hang(leg, result.legs)
        leg = replace(leg, state="hang", reason=Reason(reasons.HANG, hang)) if hang else leg
        problem = doubt or _leg_problem(result, leg, facts)
        if leg.leg in named or leg.leg in faults:
            problem = problem or "it was sent twice"
        if problem:
            faults[leg.leg] = problem
            named.pop(leg.leg, None)
        else:
            named[leg.leg] = leg
    return [LegEvidence(name, legs[name], problems[name]) for name in legs]


def _nccl_legs(record: HostRecord) -> Iterator[tuple[CheckResult, Leg]]:
    for result in record.report.results if record.report else ():
        for leg in result.legs:
            if leg.backend == "nccl":
                yield result, leg


def _host_doubt(record: HostRecord, facts: NodeFacts) -> str:
    if record.state not in ANSWERED:
        return f"the visit ended as {record.state.replace('_', ' ')}"
    # A visit that was cut off has told all about its GPUs, or nothing.
    return next(contradictions(record, replace(facts, whole=True)), NONE).text


def _leg_problem(result: CheckResult, leg: Leg, facts: NodeFacts) -> str:
    if result.check != leg.collective:
        return f"it came as an answer of {line(result.check, 60)}"
    if result.state != "done":
        return f"the answer is {result.state.replace('_', ' ')}: {line(result.reason.text, 120)}"
    if leg.ranks != len(facts.models):
        gpus = count(len(facts.models), "GPU")
        return f"it ran on {count(leg.ranks, 'rank')}, and the node names {gpus}"
    if leg.state == "not_engaged":
        return f"it did not use what it is to measure: {line(leg.reason.text, 120)}"
    if leg.state == "not_started":
        return f"it did not start: {line(leg.reason.text, 120)}"
    return leg_problem(leg, planned_env(leg.leg))
