"""A judged run as rows for DuckDB. Pure.

A run of 1,000 hosts has millions of samples, and most are one object many times over (see
``wire``): what an object holds is taken once, and a row of samples is a few numbers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hwcheck import checks as registry
from hwcheck.advise.assessment import Assessment
from hwcheck.checks.serials import BOARD_PART_NUMBER, serials
from hwcheck.checks.shared.leg_checks import BUSBW_GBPS
from hwcheck.contract.wire import CheckResult, GpuFacts, Value
from hwcheck.judge.legs import is_clean
from hwcheck.judge.past import library_of
from hwcheck.judge.records import MULTI_HOST
from hwcheck.results.multi_host import MNNVL_OFF, MultiHostRecord, MultiHostRun
from hwcheck.results.options import SCOPES
from hwcheck.results.run_folder import HostRecord, Run

Codes = npt.NDArray[np.int32]
Table = dict[str, list[Any]]
"""Columns of one length by their names: texts, numbers, None for nothing."""

SOFTWARE = ("driver", "nccl", "torch")
"""What of a host's software is kept (``Metric.fact``)."""

SECOND_VISIT = ", second visit"
"""What follows the leg in the subject of what was measured again."""
PAIRS, RAIL = "pairs", "rail "
WORDS: dict[Value, str] = {True: "yes", False: "no"}


Gpus = Mapping[str, Sequence[GpuFacts]]
"""Those of each host, in the order of NVML."""


def gpus_of(run: Run) -> Gpus:
    """Return the GPUs that NVML counts on each host."""
    return {record.host: _gpus(record) for record in run.records}


def sample_codes(run: Run, gpus: Gpus) -> tuple[dict[str, Codes], dict[str, Table]]:
    """Return the samples as codes, and by the name of each code a table of what it stands for.

    They come in the order of check, metric, subject and host: what a reader asks for lies together.
    Most hosts answer alike: the samples of such answers (one tuple, see ``wire``) are coded once,
    and each row has the place of its sample among these.
    """
    answers = [
        (place, result)
        for place, record in enumerate(run.records)
        for result in _results(record)
        if result.samples
    ]
    once = {(each.check, id(each.samples)): each.samples for _, each in answers}
    samples = list(chain.from_iterable(once.values()))
    ids = np.fromiter(map(id, samples), np.int64, len(samples))
    _, first, places = np.unique(ids, return_index=True, return_inverse=True)
    sample = places.astype(np.int32)
    distinct = [samples[place] for place in first]

    checks = sorted({name for name, _ in once})
    check_codes = {name: code for code, name in enumerate(checks)}
    names = sorted({(each.metric, each.subject) for each in distinct})
    name_codes = {name: code for code, name in enumerate(names)}
    name = np.array([name_codes[each.metric, each.subject] for each in distinct], np.int32)
    lengths = np.array([len(each) for each in once.values()], np.int32)
    check = np.repeat(np.array([check_codes[name] for name, _ in once], np.int32), lengths)
    _, rank = np.unique(check * np.int32(len(names)) + name[sample], return_inverse=True)
    if len(rank) and rank.max() < 2**16:
        rank = rank.astype(np.uint16)  # which numpy sorts in a quarter of the time

    once_codes = {of: code for code, of in enumerate(once)}
    answer = np.array([once_codes[each.check, id(each.samples)] for _, each in answers], np.int32)
    amounts = lengths[answer]
    starts, first_rows = np.cumsum(lengths) - lengths, np.cumsum(amounts) - amounts
    of_row = np.repeat((starts[answer] - first_rows).astype(np.int32), amounts)
    of_row += np.arange(len(of_row), dtype=np.int32)
    host = np.repeat(np.array([place for place, _ in answers], np.int32), amounts)
    order = np.argsort(rank[of_row], kind="stable")  # hosts stay in their order
    of_row, host = of_row[order], host[order]
    subjects = [each.subject for each in distinct]
    gpu, gpu_ids = _gpu_codes(run, gpus, subjects, host, sample[of_row])
    return {"host": host, "check": check[of_row], "sample": sample[of_row], "gpu": gpu}, {
        "host": _coded(name=_texts(record.host for record in run.records)),
        "check": _coded(name=_texts(checks)),
        "gpu": _coded(name=_texts(gpu_ids)),
        "sample": _coded(
            metric=_texts(each.metric for each in distinct),
            subject=_texts(subjects),
            **_values(each.value for each in distinct),
            unit=_texts(each.unit for each in distinct),
        ),
    }


class TimingRow(NamedTuple):
    """The busbw (1e9 B/s) of a collective at one message size, 0 for that of its largest."""

    check: str
    metric: str
    subject: str
    size_bytes: int
    host: str
    busbw_gbps: float
    spread: float
    library: str


def timing_table(assessment: Assessment) -> Table:
    """Return the busbw of every size of every clean leg, and of what ran over several hosts.

    The samples have that of a leg's largest size.
    """
    timed = sorted([*_legs(assessment.run), *_over_hosts(assessment.multi_host)])
    return {
        "host": _texts(each.host for each in timed),
        "check_id": _texts(each.check for each in timed),
        "metric": _texts(each.metric for each in timed),
        "unit": ["GB/s"] * len(timed),
        "subject": _texts(each.subject for each in timed),
        "size_bytes": [each.size_bytes or None for each in timed],
        "value": [each.busbw_gbps for each in timed],
        "spread": [each.spread for each in timed],
        "library": _texts(each.library for each in timed),
    }


def _legs(run: Run) -> Iterator[TimingRow]:
    """Yield the legs of each host; those of its second visit have another subject."""
    visits = [(record, "") for record in run.records]
    visits += [(record, SECOND_VISIT) for record in run.second_visits.values()]
    for record, visit in visits:
        for result in _results(record):
            for leg in filter(is_clean, result.legs):
                subject = f"leg {leg.leg}{visit}"
                for size in leg.sizes:
                    yield TimingRow(
                        *(leg.collective, BUSBW_GBPS.name, subject, size.size_bytes, record.host),
                        *(size.busbw_gbps, max(size.spread, size.pass_spread), library_of(leg)),
                    )


def _over_hosts(record: MultiHostRecord | None) -> Iterator[TimingRow]:
    """Yield what ran over several hosts as one of each of them; not what looked for a culprit."""
    for run in record.runs if record else ():
        if run.outcome.kind != "ok" or not _is_comparable(run):
            continue
        sizes = [(size.size_bytes, size) for size in run.sizes] + [(0, run.sizes[-1])]
        for host in run.hosts:
            others = [name for name in run.hosts if name != host]
            pair = len(others) == 1 and run.why in (PAIRS, MNNVL_OFF)
            subject = f"link to {others[0]}" if pair else f"{len(run.hosts)} hosts"
            if run.why not in SCOPES:
                subject += f", {run.why}"
            of_run = (MULTI_HOST, f"{run.collective}_{BUSBW_GBPS.name}", subject)
            for size_bytes, size in sizes:
                yield TimingRow(
                    *(*of_run, size_bytes, host, size.busbw_gbps, size.spread, run.library)
                )


def _is_comparable(run: MultiHostRun) -> bool:
    return run.why in (*SCOPES, MNNVL_OFF) or run.why.startswith(RAIL)


def finding_table(assessment: Assessment, gpus: Gpus) -> Table:
    """Return what did not pass."""
    findings = sorted(
        assessment.judgement.not_passed,
        key=lambda each: (each.check, each.metric, each.subject, each.host),
    )
    hosts = {each.host for each in findings}
    ids = {(host, f"gpu{gpu.index}"): gpu.id for host in hosts for gpu in gpus.get(host, ())}
    return {
        "host": _texts(each.host for each in findings),
        "check_id": _texts(each.check for each in findings),
        "metric": _texts(each.metric for each in findings),
        "subject": _texts(each.subject for each in findings),
        "gpu": _texts(ids.get((each.host, each.subject)) for each in findings),
        "outcome": _texts(each.outcome for each in findings),
        **_values(each.value for each in findings),
        "unit": _texts(each.unit for each in findings),
        "limit_text": _texts(each.limit for each in findings),
        "source": _texts(each.source for each in findings),
        "confidence": _texts(each.confidence for each in findings),
        "reason": _texts(each.reason.text for each in findings),
        "reason_code": _texts(each.reason.code or None for each in findings),
        "waived": _texts(each.waived or None for each in findings),
    }


def host_table(assessment: Assessment, gpus: Gpus) -> Table:
    """Return the hosts."""
    run, causes = assessment.run, assessment.advice.causes.by_host
    addresses = {plan.name: plan.address for plan in run.meta.hosts}
    records = {record.host: record for record in run.records}
    hosts: list[dict[str, Any]] = [
        {
            "host": _text(verdict.host),
            "address": _text(addresses[verdict.host]),
            "state": verdict.state,
            "outcome": verdict.outcome,
            "reason": _text(verdict.reason),
            "reason_code": records[verdict.host].reason.code or None,
            "asked": verdict.asked,
            "measured": verdict.measured,
            **_of_record(records[verdict.host], gpus[verdict.host]),
            "causes": causes.get(verdict.host, ()),
        }
        for verdict in assessment.judgement.hosts
    ]
    return {name: [host[name] for host in hosts] for name in (hosts[0] if hosts else ())}


def _of_record(record: HostRecord, of_host: Sequence[GpuFacts]) -> dict[str, Any]:
    """Return what a host says of itself; None for what it does not say."""
    facts = record.report.facts if record.report else {}
    values = _identities(record)
    gpus = [
        {
            "slot": f"gpu{gpu.index}",
            "pci_address": _text(gpu.pci_address),
            "gpu": _text(gpu.id),
            "uuid": _text(gpu.uuid),
            "serial": _text(gpu.serial),
            "model": _text(gpu.name),
            "vbios": _text(gpu.vbios),
            "board": _text(values.get((serials.id, BOARD_PART_NUMBER.name, f"gpu{gpu.index}"), "")),
        }
        for gpu in of_host
    ]
    return {
        "duration_s": record.duration_s,
        "hostname": _text(facts.get("hostname")),
        "kernel": _text(facts.get("kernel")),
        **{name: _text(values.get((*_told(name), "node"))) for name in SOFTWARE},
        "gpus": gpus,
        "boards": _hash(gpus) if gpus else None,
    }


def _told(fact: str) -> tuple[str, str]:
    """Return the check and the metric that tell a fact."""
    check, metric = registry.telling(fact)
    return check.id, metric.name


def _hash(gpus: Sequence[Mapping[str, object]]) -> str:
    """Return what is another wherever another GPU or VBIOS is anywhere: quicker to compare."""
    return hashlib.sha256(json.dumps(gpus).encode()).hexdigest()[:12]


def _identities(record: HostRecord) -> dict[tuple[str, str, str], Value]:
    """Return what identifies software and boards, by check, metric and subject."""
    checks = {_told(name)[0] for name in SOFTWARE} | {serials.id}
    return {
        (result.check, sample.metric, sample.subject): sample.value
        for result in _results(record)
        if result.check in checks
        for sample in result.samples
    }


def _gpu_codes(
    run: Run, gpus: Gpus, subjects: Sequence[str], host: Codes, sample: Codes
) -> tuple[Codes, list[str]]:
    """Return for each row the code of the GPU that it is about, -1 for none, and the GPUs."""
    slots = {name: place for place, name in enumerate(sorted(set(subjects)))}
    codes: dict[str, int] = {}
    by_slot = np.full((len(run.records), len(slots)), -1, np.int32)
    for place, record in enumerate(run.records):
        for gpu in gpus[record.host]:
            slot, gpu_id = slots.get(f"gpu{gpu.index}"), gpu.id
            if slot is not None and gpu_id:
                by_slot[place, slot] = codes.setdefault(gpu_id, len(codes))
    slot_of = np.array([slots[subject] for subject in subjects], np.int32)
    return by_slot[host, slot_of[sample]], list(codes)


def _gpus(record: HostRecord) -> Sequence[GpuFacts]:
    return [g for g in record.report.gpus if g.index is not None] if record.report else ()


def _results(record: HostRecord) -> Sequence[CheckResult]:
    return record.report.results if record.report else ()


def _coded(**columns: list[Any]) -> Table:
    """Return a table whose rows are numbered."""
    return {"code": list(range(len(next(iter(columns.values()))))), **columns}


def _values(values: Iterable[Value | None]) -> Table:
    """Return values as numbers (yes is 1; None for a text or nothing), and as texts (``yes``)."""
    listed = list(values)
    return {
        "value": [None if isinstance(value, str) else _number(value) for value in listed],
        "value_text": [
            _text(value)
            if isinstance(value, str)
            else WORDS[value]
            if isinstance(value, bool)
            else None
            for value in listed
        ],
    }


def _number(value: float | None) -> float | None:
    try:
        return None if value is None else float(value)
    except OverflowError:  # JSON has whole numbers of any length
        return None


def _texts(values: Iterable[object]) -> list[str | None]:
    return [
        value if type(value) is str and value.isascii() else _text(value)  # as most are
        for value in values
    ]


def _text(value: object) -> str | None:
    """Return a value as text that UTF-8 has: what a node says may hold lone surrogates."""
    if value is None:
        return None
    text = str(value)
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")
