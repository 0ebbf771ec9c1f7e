"""The fault of a host as its vendor asks for it: parts, errors, failures by their limits. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hwcheck.advise.assessment import Assessment
from hwcheck.advise.records import Diagnosis
from hwcheck.checks.inforom import INFOROM_IMAGE, inforom
from hwcheck.checks.serials import BOARD_PART_NUMBER, BOARD_SERIAL, serials
from hwcheck.contract.check import Check
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.fleet.accept.evidence import InstalledPart, parts_of, software_of
from hwcheck.judge.host_case import gpus_of, samples_of, values_of
from hwcheck.judge.records import Finding
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import line, quantity

RMA = "NVIDIA RMA Process; NVIDIA GPU Debug Guidelines"
FIELD_DIAGNOSTIC = (
    "the field diagnostic (fieldiag) ends with FAIL; RETEST is run again, CONFIG is a fault of the "
    "set-up and no reason. The vendor gives it out and runs it: the driver must be unloaded for it"
)
SENSITIVE = r"(?:passw(?:or)?d|secret|token|api[_-]?key|credential|authorization)"
SECRET = re.compile(rf"(?i)({SENSITIVE}\S{{0,20}}?[=: ]+(?:(?:basic|bearer) +)?)\S+")
LOGIN = re.compile(r"(\w://)[^\s/@]{1,200}@")
"""A user and a password in an address."""


@dataclass(frozen=True)
class GpuParts:
    """What the vendor knows a GPU by; a text is empty where the node does not say.

    ``failed``: something of it is outside a limit.
    """

    slot: str
    pci_address: str
    model: str
    serial: str
    uuid: str
    part_number: str
    vbios: str
    inforom: str
    failed: bool


@dataclass(frozen=True)
class Criterion:
    """One of the vendor's reasons to take a board back; ``gpus`` are those that meet it."""

    text: str
    source: str
    state: str
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """A failed host. ``readings`` are of memory, ``events`` of the kernel's log."""

    host: str
    run: str
    measured: str
    software: tuple[tuple[str, str], ...]
    gpus: tuple[GpuParts, ...]
    findings: tuple[Finding, ...]
    causes: tuple[Diagnosis, ...]
    criteria: tuple[Criterion, ...]
    readings: tuple[tuple[str, str, str], ...]
    events: tuple[tuple[str, str], ...]
    parts: tuple[tuple[str, InstalledPart], ...] = ()


def fault_of(assessments: Sequence[Assessment], host: str) -> Fault:
    """Return what judged runs say of a host, and nothing of any other.

    The last is the run that it failed in; of each check the last answer counts, whichever run has
    it.
    """
    visits = [(each, record) for each in assessments for record in _records(each, host)]
    last, latest = visits[-1]
    checks = last.catalogue.checks.values()
    answers: dict[str, tuple[CheckResult, Assessment]] = {}
    for assessment, record in visits:
        for result in record.report.results if record.report else ():
            answers[result.check] = result, assessment
    others = _others(assessments, host)
    findings = [
        finding._replace(
            reason=replace(finding.reason, text=without(finding.reason.text, others)),
            limit=without(finding.limit, others),
            subject=without(finding.subject, others),
        )
        for assessment in assessments
        for finding in assessment.judgement.by_host.get(host, ())
        if finding.outcome == "fail"
        and (answers[finding.check][1] if finding.check in answers else last) is assessment
    ]
    named = last.advice.causes.by_host.get(host, ())
    causes = [
        replace(each, observed=tuple(without(text, others) for text in each.observed))
        for each in last.advice.causes.diagnoses
        if each.cause in named
    ]
    record = _merged(latest, [record for _, record in visits], answers)
    parts = parts_of(record)
    return Fault(
        host=host,
        run=last.run.meta.id,
        measured=latest.started or last.run.meta.started,
        software=tuple(software_of(record, checks).items()),
        gpus=tuple(_gpus(record, {finding.subject for finding in findings})),
        findings=tuple(findings),
        causes=tuple(causes),
        criteria=tuple(_criteria(checks, record, findings)),
        readings=tuple(_readings(checks, record)),
        events=tuple(_events(checks, record)),
        parts=tuple(each for each in parts.items() if not each[0].startswith("gpu")),
    )


def _records(assessment: Assessment, host: str) -> Iterator[HostRecord]:
    return (
        record
        for record in assessment.run.records
        if record.host == host and record.state != "not_visited"
    )


def _merged(
    latest: HostRecord,
    records: Sequence[HostRecord],
    answers: Mapping[str, tuple[CheckResult, Assessment]],
) -> HostRecord:
    """Return a record with the last answer to each check, and the GPUs of the last visit."""
    reports = [record.report for record in records if record.report]
    named = [report for report in reports if report.gpus] or reports
    if not named:
        return latest
    results = tuple(result for result, _ in answers.values())
    report = replace(named[-1], results=results)
    return HostRecord(latest.host, latest.state, started=latest.started, report=report)


def _others(assessments: Iterable[Assessment], host: str) -> re.Pattern[str] | None:
    """Return what the names of other hosts look like, folded ones too."""
    names = {plan.name for each in assessments for plan in each.run.meta.hosts} - {host}
    addresses = {
        plan.address for each in assessments for plan in each.run.meta.hosts if plan.name in names
    }
    if not names:
        return None
    words = sorted(map(re.escape, names | addresses), key=len, reverse=True)
    stems = sorted({re.escape(re.sub(r"\d+$", "", name)) for name in names if name[-1:].isdigit()})
    folded = [rf"{stem}\[[\d,-]+\]" for stem in stems if stem]
    return re.compile(rf"(?<![\w.-])(?:{'|'.join([*folded, *words])})(?![\w-]|\.\w)")


def without(text: str, others: re.Pattern[str] | None) -> str:
    """Return a text without the names of other hosts."""
    return others.sub("another host", text) if others else text


def log_for_vendor(log: str, assessments: Sequence[Assessment], host: str) -> str:
    """Return a host's log without the names of other hosts, and without what looks like secrets."""
    return _without_secrets(without(log, _others(assessments, host)))


def answer_for_vendor(answer: Any, assessments: Sequence[Assessment], host: str) -> Any:
    """Return a host's answer (parsed JSON) with every text in it as ``log_for_vendor`` has it."""
    others = _others(assessments, host)

    def kept(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {without(key, others): kept(each, key) for key, each in value.items()}
        if isinstance(value, list):
            return [kept(each, name) for each in value]
        if not isinstance(value, str):
            return value
        hidden = re.search(rf"(?i){SENSITIVE}", name)
        return "***" if hidden else _without_secrets(without(value, others))

    return kept(answer)


def _without_secrets(text: str) -> str:
    return LOGIN.sub(r"\1***@", SECRET.sub(r"\1***", text))


def _gpus(record: HostRecord, failed: Collection[str]) -> Iterator[GpuParts]:
    parts = _by_subject(samples_of(record, serials))
    images = _by_subject(samples_of(record, inforom))
    for gpu in gpus_of(record):
        slot = f"gpu{gpu.index}"
        of_it = parts.get(slot, {})
        yield GpuParts(
            slot=slot,
            pci_address=line(gpu.pci_address, 40),
            model=line(gpu.name, 80),
            serial=line(gpu.serial or of_it.get(BOARD_SERIAL.name, ""), 60),
            uuid=line(gpu.uuid, 80),
            part_number=line(of_it.get(BOARD_PART_NUMBER.name, ""), 60),
            vbios=line(gpu.vbios, 40),
            inforom=line(images.get(slot, {}).get(INFOROM_IMAGE.name, ""), 40),
            failed=slot in failed,
        )


def _by_subject(samples: Iterable[Sample]) -> dict[str, dict[str, str]]:
    made: dict[str, dict[str, str]] = {}
    for sample in samples:
        made.setdefault(sample.subject, {})[sample.metric] = str(sample.value)
    return made


def _criteria(
    checks: Collection[Check], record: HostRecord, findings: Iterable[Finding]
) -> Iterator[Criterion]:
    """Yield what NVIDIA takes a GPU back for, as far as NVML tells; its own diagnostic confirms."""
    failed = {(finding.check, finding.metric, finding.subject) for finding in findings}
    for check in checks:
        for metric in check.metrics:
            if metric.proof is None:
                continue
            subjects = values_of(record, check, metric)
            gpus = tuple(name for name in subjects if (check.id, metric.name, name) in failed)
            state = "met" if gpus else "not met" if subjects else "not measured"
            yield Criterion(metric.proof.text, metric.proof.source, state, gpus)
    yield Criterion(FIELD_DIAGNOSTIC, RMA, "not measured")


def _proving(checks: Collection[Check], proof: str) -> Iterator[Check]:
    return (check for check in checks if check.proof == proof)


def _readings(checks: Collection[Check], record: HostRecord) -> Iterator[tuple[str, str, str]]:
    for check in _proving(checks, "readings"):
        for sample in samples_of(record, check):
            if sample.value not in (0, 0.0, False):
                about = f"{check.id}: {line(sample.metric, 60)}"
                yield about, line(sample.subject, 60), quantity(sample.value, sample.unit)


def _events(checks: Collection[Check], record: HostRecord) -> Iterator[tuple[str, str]]:
    for check in _proving(checks, "events"):
        for sample in samples_of(record, check):
            if sample.subject != "node" and sample.value not in (0, 0.0, False):
                about = f"{line(sample.subject, 120)}: {line(sample.metric, 60)}"
                yield about, quantity(sample.value, sample.unit)
