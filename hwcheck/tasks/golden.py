"""``hwcheck_golden`` with a file: what an acceptance measured goes along with each run."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hwcheck.accept.golden import FORMAT
from hwcheck.accept.record import check_record, read_member
from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host
from hwcheck.results.run_folder import HostRecord
from hwcheck.results.schema_check import schema_problem
from hwcheck.text import line

FILE = "golden.json"
MOST_BYTES = 64 << 20
RECORD = ".tar.gz"


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
