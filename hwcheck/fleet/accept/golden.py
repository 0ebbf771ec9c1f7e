"""What the accepted hosts measured, as one host of each kind: the reference of nightly runs.

The inventory names it in ``hwcheck_golden``, and it goes along with each run. Each figure is the
median over the hosts, each text what most of them gave.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median_low
from typing import Any

from hwcheck import __version__
from hwcheck.contract.wire import CheckResult, Report, Sample, Value
from hwcheck.errors import UsageError
from hwcheck.fleet.accept.progress import HostProgress
from hwcheck.fleet.accept.record import check_record, read_member
from hwcheck.inventory.inventory import Host
from hwcheck.judge.host_case import gpus_of
from hwcheck.results.run_folder import HostRecord, read_run
from hwcheck.results.schema_check import schema_problem
from hwcheck.text import line

FORMAT = 1
FILE = "golden.json"
MOST_BYTES = 64 << 20
RECORD = ".tar.gz"
KEPT_FACTS = ("index", "name", "pci_device_id", "pci_subsystem_id", "mig")
"""What of a GPU tells its kind; what tells it from others of its kind is left out."""


def golden(name: str, hosts: Iterable[HostProgress], runs: Path) -> dict[str, Any]:
    """Return the content of ``golden.json``: what the accepted hosts measured in these run folders.

    Raises UsageError for a run folder that cannot be read.
    """
    of_host = {
        host.host: {each.run for stage in host.stages.values() for each in stage.evidence}
        for host in hosts
        if host.accepted
    }
    names = sorted(set().union(*of_host.values()))
    read = {name: read_run(runs / name) for name in names if (runs / name / "run.json").is_file()}
    records = {
        host: [
            record
            for name, run in read.items()
            if name in of_its and run.meta.checks
            for record in run.records
            if record.host == host
        ]
        for host, of_its in of_host.items()
    }
    return {
        "format": FORMAT,
        "version": __version__,
        "id": name,
        "hosts": golden_hosts(name, records),
    }


def golden_hosts(name: str, records: Mapping[str, Sequence[HostRecord]]) -> list[HostRecord]:
    """Return a golden host for each kind of host.

    ``records`` are the visits of each accepted host, the oldest first: of each check the last
    answer counts.
    """
    by_kind: dict[tuple[str, ...], list[list[HostRecord]]] = {}
    for visits in records.values():
        reported = [visit for visit in visits if visit.report]
        if reported:
            by_kind.setdefault(_kind(reported[-1]), []).append(reported)
    return [_golden(f"{name}-{number}", hosts) for number, hosts in enumerate(by_kind.values(), 1)]


def _kind(record: HostRecord) -> tuple[str, ...]:
    return tuple(f"{gpu.name} {gpu.pci_device_id}" for gpu in gpus_of(record))


def _golden(name: str, hosts: Sequence[Sequence[HostRecord]]) -> HostRecord:
    answers = [_last_answers(visits) for visits in hosts]
    checks = dict.fromkeys(check for of_host in answers for check in of_host)
    results = tuple(_middle([a[check] for a in answers if check in a]) for check in checks)
    first = hosts[0][-1]
    assert first.report is not None
    gpus = [
        {key: value for key, value in gpu.items() if key in KEPT_FACTS}
        for gpu in first.report.facts.get("gpus", ())
    ]
    facts: dict[str, Any] = {"hostname": name, "gpus": gpus}
    return HostRecord(name, "reported", started=first.started, report=Report(facts, results, 0.0))


def _last_answers(visits: Sequence[HostRecord]) -> dict[str, CheckResult]:
    return {
        result.check: result
        for visit in visits
        for result in (visit.report.results if visit.report else ())
        if result.state == "done"
    }


def _middle(answers: Sequence[CheckResult]) -> CheckResult:
    """Return one answer for those of several hosts; its legs are those of the first."""
    values: dict[tuple[str, str, str], list[Value]] = {}
    for answer in answers:
        for sample in answer.samples:
            values.setdefault((sample.metric, sample.unit, sample.subject), []).append(sample.value)
    samples = tuple(
        Sample(metric, _of_most(its), unit, subject)
        for (metric, unit, subject), its in values.items()
        if 2 * len(its) >= len(answers)
    )
    legs = tuple(replace(leg, log_tail="", notes=()) for leg in answers[0].legs)
    return replace(answers[0], samples=samples, legs=legs, duration_s=0.0)


def _of_most(values: Iterable[Value]) -> Value:
    every = list(values)
    numbers = [v for v in every if not isinstance(v, (bool, str))]
    if len(numbers) == len(every):
        return median_low(numbers)
    return Counter(every).most_common(1)[0][0]


def golden_of(hosts: Iterable[Host]) -> tuple[HostRecord, ...]:
    """Return the golden hosts of the files that the inventory names. Raises UsageError.

    A file is ``golden.json`` of ``accept golden``, or the record of an acceptance, which has it.
    """
    files = dict.fromkeys(
        host.expect["golden"] for host in hosts if isinstance(host.expect.get("golden"), str)
    )
    return tuple(record for file in files for record in read_golden(Path(file)))


def read_golden(file: Path) -> list[HostRecord]:
    """Read a file of golden hosts. Raises UsageError: the file, and what is wrong with it."""
    try:
        data = json.loads(_content(file))
    except OSError as error:
        raise UsageError(f"hwcheck_golden: {file}: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise UsageError(f"hwcheck_golden: {file}: not JSON; accept golden writes it") from None
    if not isinstance(data, dict) or not isinstance(data.get("hosts"), list):
        raise UsageError(f"hwcheck_golden: {file}: no golden hosts; accept golden writes them")
    if data.get("format") != FORMAT:
        version = line(str(data.get("version")), 40)
        raise UsageError(f"hwcheck_golden: {file}: written by hwcheck {version}, a newer one")
    for host in data["hosts"]:
        problem = schema_problem(host, "host")
        if problem:
            raise UsageError(f"hwcheck_golden: {file}: {problem}")
    return [HostRecord.from_dict(host) for host in data["hosts"]]


def _content(file: Path) -> bytes:
    if not file.name.endswith(RECORD):
        with file.open("rb") as stream:
            content: Any = stream.read(MOST_BYTES)
            return bytes(content)
    checked = check_record(file)
    if checked.problems:
        raise UsageError(f"hwcheck_golden: {file}: {checked.problems[0]}")
    if FILE not in checked.files:
        raise UsageError(f"hwcheck_golden: {file}: a record of hosts that were not accepted")
    return read_member(file, FILE, MOST_BYTES)
