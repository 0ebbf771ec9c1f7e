"""Whether an answer is one that this node can give, and what it lacks. Pure.

A limit judges what is there. A node that leaves something out, by a defect of its own or of ours,
must not pass by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hwcheck.judge.legs import leg_problem, planned_env
from hwcheck.node.check import WITHOUT_MIG, Check
from hwcheck.node.limits import FromInventory
from hwcheck.node.wire import CheckResult, Leg
from hwcheck.results.run_folder import HostRecord

NVML_COUNTS = ("nvml_gpus", "container_gpus")
"""Metrics of gpu_count that NVML's facts must agree with."""


@dataclass(frozen=True)
class Known:
    """What is known of a node besides a check's own answer.

    ``expect`` are the inventory's expectations, without the ``hwcheck_`` prefix; ``models`` the
    GPUs that the node names, model by subject (``gpu3``), ``boards`` the same with the PCI ids that
    tell boards of one model apart, ``devices`` and ``subsystems`` the PCI ids alone, as the GPU
    says them. Without ``whole`` the visit ended before the node named any. With ``mig`` a GPU is
    split.
    """

    expect: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    boards: Mapping[str, str] = field(default_factory=dict)
    whole: bool = True
    devices: Mapping[str, str] = field(default_factory=dict)
    mig: bool = False
    subsystems: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """GPUs that the node has to have: as many as declared, or as it names itself."""
        return max(int(self.expect.get("gpus", 0)), len(self.models))

    @property
    def golden(self) -> bool:
        """Whether the inventory says that hosts like it are held against it."""
        return self.expect.get("golden") is True

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The models of its GPUs, each once."""
        return tuple(sorted(set(self.models.values())))


def known_of(expect: Mapping[str, Any], record: HostRecord) -> Known:
    """Return what the inventory and the facts of a report say."""
    models, boards, devices, subsystems = {}, {}, {}, {}
    for gpu in gpus_of(record):
        if type(gpu.get("index")) is int:
            subject = f"gpu{gpu['index']}"
            models[subject] = str(gpu.get("name", ""))
            devices[subject] = str(gpu.get("pci_device_id", ""))
            subsystems[subject] = str(gpu.get("pci_subsystem_id", ""))
            boards[subject] = " ".join((models[subject], devices[subject], subsystems[subject]))
    mig = any(gpu.get("mig") is True for gpu in gpus_of(record))
    return Known(expect, models, boards, record.state == "reported", devices, mig, subsystems)


def gpus_of(record: HostRecord) -> Sequence[Mapping[str, Any]]:
    """Return what a host's facts say of each GPU."""
    gpus = record.report.facts.get("gpus") if record.report else None
    return gpus if isinstance(gpus, list) else ()


def miscounted(known: Known) -> str:
    """Return what is wrong with the number of GPUs that the node names, or an empty text."""
    declared = known.expect.get("gpus")
    if declared is None or not known.whole or declared == len(known.models):
        return ""
    return f"the node names {len(known.models)} GPUs and hwcheck_gpus says {declared}"


def contradictions(record: HostRecord, known: Known) -> Iterator[str]:
    """Yield where the GPUs that a whole report names cannot be those that it speaks of."""
    if miscounted(known):
        yield miscounted(known)
    for result in record.report.results if record.report else ():
        if result.check == "gpu_count":
            yield from _miscounts(result, known)
    owners: dict[str, str] = {}
    for number, gpu in enumerate(gpus_of(record)):
        subject, uuid = f"gpu{gpu.get('index', number)}", gpu.get("uuid")
        if not isinstance(uuid, str) or not uuid:
            yield f"{subject} has no identifier: {gpu.get('error', 'it tells none')}"
        elif owners.setdefault(uuid, subject) != subject:
            yield f"{owners[uuid]} and {subject} have one identifier"


def _miscounts(result: CheckResult, known: Known) -> Iterator[str]:
    counts = {sample.metric: sample.value for sample in result.samples}
    by_nvml = [counts[name] for name in NVML_COUNTS if name in counts]
    for count in by_nvml:
        if count != len(known.models):
            yield f"NVML counts {count} GPUs and the node names {len(known.models)}"
    if result.state == "done" and not by_nvml:
        yield "gpu_count is done and holds no count of NVML"
    looked_at = sum(sample.metric == "seen_by_nvml" for sample in result.samples)
    if counts.get("pci_gpus", looked_at) != looked_at:
        yield f"{counts['pci_gpus']} GPUs are on the bus and NVML was asked for {looked_at}"


def believe(check: Check, result: CheckResult, known: Known) -> CheckResult:
    """Return the answer, as one that could not be measured where it cannot be true."""
    if result.state != "not_applicable":
        return result
    doubt = _doubt(check, known)
    if not doubt:
        return result
    reason = f"{doubt}, but the node says not applicable: {result.reason}"
    return replace(result, state="could_not_measure", reason=reason)


def _doubt(check: Check, known: Known) -> str:
    declared = [name for name in _declared(check, known.expect) if known.expect[name]]
    if declared:
        return f"hwcheck_{declared[0]} is declared"
    if check.optional and (check.optional != WITHOUT_MIG or known.mig):
        return ""
    if not check.gpu:
        return "it applies to every node"
    return f"the node has {known.gpus} GPUs" if known.gpus else ""


def gaps(check: Check, result: CheckResult, known: Known) -> Iterator[tuple[str, str]]:
    """Yield what an answer that claims to be done lacks, as subject and reason."""
    for name, metrics in _declared(check, known.expect).items():
        if not any(sample.metric in metrics for sample in result.samples):
            yield "node", f"hwcheck_{name} is declared and nothing was sent to hold against it"
    yield from _silent(check, result, known)
    if check.legs:
        yield from _leg_gaps(check, result, known)


def _declared(check: Check, expect: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the metrics by the declared expectation that they are held against."""
    found: dict[str, set[str]] = {}
    for metric in check.metrics:
        for limit in metric.limits:
            if isinstance(limit.operand, FromInventory) and limit.operand.name in expect:
                found.setdefault(limit.operand.name, set()).add(metric.name)
    return found


def _silent(check: Check, result: CheckResult, known: Known) -> Iterator[tuple[str, str]]:
    """Yield which required metrics are missing: of every GPU where the check is of GPUs."""
    required = [metric.name for metric in check.metrics if metric.required]
    given = {(sample.metric, sample.subject) for sample in result.samples}
    if not check.per_gpu:
        for name in required:
            if name not in {metric for metric, _ in given}:
                yield "node", f"the node sent no {name}"
        return
    if not known.models and known.whole:
        yield "node", "the node names no GPU that this could be of"
    heard = {subject for _, subject in given}
    models = {known.models[gpu] for gpu in heard & known.models.keys()}
    for gpu, model in known.models.items():
        # What is optional, GPUs of one model have alike.
        if check.optional and model not in models:
            continue
        missing = [name for name in required if (name, gpu) not in given]
        if missing or gpu not in heard:
            yield gpu, f"the node sent no {' and no '.join(missing) or 'sample'} of this GPU"


def _leg_gaps(check: Check, result: CheckResult, known: Known) -> Iterator[tuple[str, str]]:
    legs = {leg.leg: leg for leg in result.legs if leg.collective == check.id}
    # One GPU has no peer to reach in several ways: the default is all that it can show.
    alone = known.gpus == 1 and "default" in check.legs
    for name in ("default",) if alone else check.legs:
        reason = _leg_gap(legs[name], known) if name in legs else "the leg was not reported"
        if reason:
            yield f"leg {name}", reason


def _leg_gap(leg: Leg, known: Known) -> str:
    if leg.state == "not_run":
        return f"the leg was not run: {leg.reason or 'no reason given'}"
    if leg.state == "not_engaged":
        return f"the leg did not use what it is to measure: {leg.reason or 'no reason given'}"
    if leg.state != "done":
        return ""  # a finding of its own
    own = leg.backend == "nccl" and not leg.exercise and leg.ranks == known.gpus
    if known.gpus and not own:
        return f"{leg.ranks} ranks of {leg.backend} say nothing about {known.gpus} GPUs"
    return leg_problem(leg, planned_env(leg.leg))
