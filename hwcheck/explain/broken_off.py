"""Whether a run of nccl-tests came to its end: what launchers and programs say when it did not."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hwcheck.node.nccl_tests.records import Table
from hwcheck.text import binary_size, line

LINE_CHARACTERS = 4000
MOST = 20

_HEADER = re.compile(r"\bsize[ \t]+count[ \t]+type\b")
_ENDED = re.compile(
    r"exited on signal \d|terminated by signal|[Rr]eceived signal|signal: (?:[Kk]illed|[Aa]borted)"
    r"|Signal: \w|\bcore dumped\b|\bKilled\b|^\s*Terminated\b|\bAborted\b|\bBus error"
    r"|Segmentation fault|CANCELLED AT|DUE TO TIME LIMIT|\boom[-_ ]kill|\bOut [Oo]f [Mm]emory\b"
    r"|\bTest (?:CUDA|NCCL) failure|\bTest failure \w+\.cu|\bunhandled \w+ error"
    r"|\bsrun: error|\bslurmstepd: error|\bmpi(?:run|exec) (?:noticed|detected|has exited|was)"
    r"|exited with non-?zero|exit(?:ed with exit)? code:? [1-9]|BAD TERMINATION"
    r"|command terminated with|timeout: sending signal|Watchdog caught|lost communication with"
    r"|^\s*\^C|KeyboardInterrupt"
)
"""Ends of a run, by Open MPI, MPICH, Slurm, a shell, kubectl, timeout(1) and nccl-tests."""

_LINE_END = re.compile(r"\r\n?|\n")
_REDUCED = re.compile(r"# Reducing maxBytes to (\d{1,19})\b")


def messages(text: str) -> tuple[str, ...]:
    """Return what was said of an end after a table began; each message once."""
    header = _HEADER.search(text)
    lines: dict[str, None] = {}
    for raw in _LINE_END.split(text[header.start() :]) if header else ():
        row = raw[:LINE_CHARACTERS]
        if _ENDED.search(row) and "NCCL INFO" not in row:
            lines[line(row, 200)] = None
        if len(lines) == MOST:
            break
    return tuple(lines)


def reduced_bytes(text: str) -> int | None:
    """Return the largest size that fits into memory, where nccl-tests says that it takes less."""
    match = _REDUCED.search(text)
    return int(match.group(1)) if match else None


def why_no_proof(table: Table, endings: Sequence[str], announced: int | None) -> str:
    """Return why the rows do not prove a run that came to its end; empty where nothing says so.

    ``endings`` are the file's messages of an end, ``announced`` the largest size asked for.
    A footer comes after the last row only, so with one the run was whole.
    """
    if table.ended or not table.rows:
        return ""
    largest = max(row.size_bytes for row in table.rows)
    reach = binary_size(largest)
    if endings:
        return f"it broke off after {reach}: {line(endings[0], 160)}"
    if announced and _next_size(table) <= announced:
        return (
            f"the rows end at {reach} of {binary_size(announced)} and no footer follows: the log "
            "is cut, or the run hung or was killed there"
        )
    return ""


def _next_size(table: Table) -> int:
    """Return the size that would come after the last row, by how the sizes grow."""
    sizes = sorted({row.size_bytes for row in table.timed})
    if len(sizes) < 2:
        return 2 * sizes[-1] if sizes else 1
    before, last = sizes[-2:]
    if len(sizes) > 2 and before - sizes[-3] == last - before:
        return last + last - before
    return last * last // before
