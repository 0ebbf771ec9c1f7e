"""One host of a run as its judges see it. Pure data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

from hwcheck.contract.check import Check, Metric
from hwcheck.contract.limits import FromInventory
from hwcheck.contract.wire import CheckResult, GpuFacts, Leg, Sample, Value
from hwcheck.results.multi_host import MultiHostRecord
from hwcheck.results.run_folder import HostPlan, HostRecord
from hwcheck.results.site_limits import ABSENT, SiteLimits, ignored
from hwcheck.results.training import TrainingRecord


@dataclass(frozen=True)
class NodeFacts:
    """What a node is, besides any check's answer.

    ``expect`` are the inventory's expectations, without the ``hwcheck_`` prefix; ``models`` the
    GPUs that the node names, model by subject (``gpu3``), ``boards`` the same with the PCI ids that
    tell boards of one model apart, ``devices`` and ``subsystems`` the PCI ids alone, as the GPU
    says them, ``limits`` what the site set. Without ``whole`` the visit ended before the node named
    any. With ``mig`` a GPU is split.
    """

    expect: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, str] = field(default_factory=dict)
    boards: Mapping[str, str] = field(default_factory=dict)
    whole: bool = True
    devices: Mapping[str, str] = field(default_factory=dict)
    mig: bool = False
    subsystems: Mapping[str, str] = field(default_factory=dict)
    limits: SiteLimits = field(default_factory=dict)

    @property
    def gpus(self) -> int:
        """GPUs that the node has to have: as many as declared, or as it names itself."""
        return max(int(self.expect.get("gpus", 0)), len(self.models))

    @property
    def golden(self) -> bool:
        """Whether the inventory says that hosts like it are held against it."""
        return self.expect.get("golden") is True

    def declares(self, metric: Metric) -> bool:
        """Whether the inventory says what a metric should be."""
        operands = (limit.operand for limit in metric.limits)
        return any(isinstance(o, FromInventory) and o.name in self.expect for o in operands)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The models of its GPUs, each once."""
        return tuple(sorted(set(self.models.values())))


def node_facts(
    expect: Mapping[str, Any], record: HostRecord, limits: SiteLimits = MappingProxyType({})
) -> NodeFacts:
    """Return what the inventory and the facts of a report say."""
    models, boards, devices, subsystems = {}, {}, {}, {}
    for gpu in gpus_of(record):
        if gpu.index is not None:
            subject = f"gpu{gpu.index}"
            models[subject] = gpu.name
            devices[subject] = gpu.pci_device_id
            subsystems[subject] = gpu.pci_subsystem_id
            boards[subject] = " ".join((models[subject], devices[subject], subsystems[subject]))
    mig = any(gpu.mig is True for gpu in gpus_of(record))
    whole = record.state == "reported"
    return NodeFacts(expect, models, boards, whole, devices, mig, subsystems, limits)


def gpus_of(record: HostRecord) -> Sequence[GpuFacts]:
    """Return what identifies each GPU of a host."""
    return record.report.gpus if record.report else ()


def samples_of(record: HostRecord, check: Check) -> Iterator[Sample]:
    """Yield the samples that a host sent for a check."""
    for result in record.report.results if record.report else ():
        if result.check == check.id:
            yield from result.samples


def values_of(record: HostRecord, check: Check, metric: Metric) -> dict[str, Value]:
    """Return what a host measured of a metric, by subject."""
    samples = samples_of(record, check)
    return {sample.subject: sample.value for sample in samples if sample.metric == metric.name}


@dataclass(frozen=True)
class HostCase:
    """A host of a run, with everything that its judges go by.

    ``checks`` are those that the run asked for, by id and in its order; None for one that this
    version does not have. ``answers`` are the host's by check, as far as they are credible
    (``evidence.credible``). ``second_visit`` measured again what lay on a border, and
    ``multi_host`` are the runs over several hosts, ``training`` a training benchmark: None where
    there were none with this host.
    ``same_machine`` says why it may be the same machine as another host of the run, ``started``
    when the run began.
    """

    plan: HostPlan
    record: HostRecord
    facts: NodeFacts
    checks: Mapping[str, Check | None]
    answers: Mapping[str, CheckResult]
    second_visit: HostRecord | None = None
    multi_host: MultiHostRecord | None = None
    training: TrainingRecord | None = None
    same_machine: str = ""
    started: str = ""

    @property
    def name(self) -> str:
        """The host's name in the inventory."""
        return self.plan.name

    @property
    def judged_answers(self) -> Iterator[tuple[Check, CheckResult]]:
        """The answers of checks that were asked for and that this version has, in their order."""
        for name, check in self.checks.items():
            if check is not None and name in self.answers:
                yield check, self.answers[name]

    @property
    def legs(self) -> Iterator[tuple[str, Sequence[Leg]]]:
        """The legs of each of these answers that has any, with the check's id."""
        for check, answer in self.judged_answers:
            if answer.legs:
                yield check.id, answer.legs

    @cached_property
    def not_judged(self) -> Mapping[str, str]:
        """What the site wants ignored of the checks that apply, ``check.metric``, with its source.

        That something could not be measured is a finding of no metric, and stays.
        """
        states = {name: answer.state for name, answer in self.answers.items()}
        return {
            key: source
            for key, source in ignored(self.facts.limits).items()
            if (name := key.partition("."))[0] in self.checks
            and (states.get(name[0]) != "not_applicable" or name[2] == ABSENT)
        }

    def judges(self, check: str, metric: str) -> bool:
        """Whether findings of a metric count; they do unless the site wants it ignored."""
        return f"{check}.{metric}" not in self.not_judged

    @property
    def without_checks(self) -> bool:
        """Whether the host was visited for runs over several hosts or training, and no check."""
        others = self.multi_host is not None or self.training is not None
        return others and not self.checks and self.record.state == "reported"

    def second_answer(self, check: str) -> CheckResult | None:
        """Return what the second visit answered to a check; None where it did not come to that."""
        report = self.second_visit.report if self.second_visit else None
        results = report.results if report else ()
        return next((result for result in results if result.check == check), None)

    @property
    def second_visit_failure(self) -> str:
        """How a second visit ended that did not come to its end, otherwise an empty text."""
        if self.second_visit is None or self.second_visit.state == "reported":
            return ""
        return f"{self.second_visit.state.replace('_', ' ')}: {self.second_visit.reason}"
