"""The fault of a host as its vendor asks for it: parts, errors, failures by their limits. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from hwcheck.advise.assessment import Assessment
from hwcheck.advise.records import Diagnosis
from hwcheck.judge.host_case import gpus_of, samples_of
from hwcheck.judge.records import Finding
from hwcheck.node.wire import Sample
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import line, quantity

MEMORY = ("ecc_errors", "row_remap", "retired_pages")
EVENTS = ("xid", "kernel_faults")
MANAGEMENT = "NVIDIA GPU Memory Error Management, RMA Policy Thresholds for Row-Remapping"
RETIREMENT = "NVIDIA Dynamic Page Retirement, RMA Policy Thresholds"
CRITERIA = (
    ("row_remap", "row_remap_failure", "a row could not be remapped", MANAGEMENT),
    ("ecc_errors", "sram_threshold_exceeded", "SRAM failed oftener than its threshold", MANAGEMENT),
    ("retired_pages", "retired_pages", "as many pages are retired as the policy bears", RETIREMENT),
)
"""What NVIDIA takes a GPU back for, as far as NVML tells; its field diagnostic confirms it."""


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


def fault_of(assessment: Assessment, host: str) -> Fault:
    """Return what a judged run says of a host, and nothing of any other."""
    record = next(each for each in assessment.run.records if each.host == host)
    findings = [
        finding
        for finding in assessment.judgement.by_host.get(host, ())
        if finding.outcome == "fail"
    ]
    named = assessment.advice.causes.by_host.get(host, ())
    causes = [each for each in assessment.advice.causes.diagnoses if each.cause in named]
    versions = {sample.metric: sample for sample in samples_of(record, "driver")}
    software = [
        (line(name.replace("_", " "), 60), quantity(sample.value, sample.unit))
        for name, sample in versions.items()
        if sample.subject == "node"
    ]
    return Fault(
        host=host,
        run=assessment.run.meta.id,
        measured=record.started or assessment.run.meta.started,
        software=tuple(software),
        gpus=tuple(_gpus(record, {finding.subject for finding in findings})),
        findings=tuple(findings),
        causes=tuple(causes),
        criteria=tuple(_criteria(record, assessment)),
        readings=tuple(_readings(record)),
        events=tuple(_events(record)),
    )


def _gpus(record: HostRecord, failed: Collection[str]) -> Iterator[GpuParts]:
    parts = _by_subject(samples_of(record, "serials"))
    images = _by_subject(samples_of(record, "inforom"))
    for gpu in gpus_of(record):
        slot = f"gpu{gpu.index}"
        of_it = parts.get(slot, {})
        yield GpuParts(
            slot=slot,
            pci_address=line(gpu.pci_address, 40),
            model=line(gpu.name, 80),
            serial=line(gpu.serial or of_it.get("board_serial", ""), 60),
            uuid=line(gpu.uuid, 80),
            part_number=line(of_it.get("board_part_number", ""), 60),
            vbios=line(gpu.vbios, 40),
            inforom=line(images.get(slot, {}).get("inforom_image", ""), 40),
            failed=slot in failed,
        )


def _by_subject(samples: Iterable[Sample]) -> dict[str, dict[str, str]]:
    made: dict[str, dict[str, str]] = {}
    for sample in samples:
        made.setdefault(sample.subject, {})[sample.metric] = str(sample.value)
    return made


def _criteria(record: HostRecord, assessment: Assessment) -> Iterator[Criterion]:
    failed = {
        (finding.check, finding.metric, finding.subject)
        for finding in assessment.judgement.by_host.get(record.host, ())
        if finding.outcome == "fail"
    }
    for check, metric, text, source in CRITERIA:
        subjects = [each.subject for each in samples_of(record, check) if each.metric == metric]
        gpus = tuple(name for name in subjects if (check, metric, name) in failed)
        state = "met" if gpus else "not met" if subjects else "not measured"
        yield Criterion(text, source, state, gpus)


def _readings(record: HostRecord) -> Iterator[tuple[str, str, str]]:
    for check in MEMORY:
        for sample in samples_of(record, check):
            if sample.value not in (0, 0.0, False):
                about = f"{check}: {line(sample.metric, 60)}"
                yield about, line(sample.subject, 60), quantity(sample.value, sample.unit)


def _events(record: HostRecord) -> Iterator[tuple[str, str]]:
    for check in EVENTS:
        for sample in samples_of(record, check):
            if sample.subject != "node" and sample.value not in (0, 0.0, False):
                about = f"{line(sample.subject, 120)}: {line(sample.metric, 60)}"
                yield about, quantity(sample.value, sample.unit)
