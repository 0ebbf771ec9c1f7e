"""What a file is and what it says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from hwcheck.explain import (
    acs,
    broken_off,
    diag_notes,
    environment,
    kernel_log,
    matrix,
    nccl_log,
    network_notes,
    smi,
)
from hwcheck.explain.benchmark import runs_of
from hwcheck.explain.command_line import CommandLine, commands_of
from hwcheck.explain.records import Benchmarks, Entry, Unknown
from hwcheck.explain.sources import LogFile
from hwcheck.node.collective import nccl_info
from hwcheck.node.nccl_tests import json_form, text
from hwcheck.node.nccl_tests.records import Table

_LATE_SETTING = re.compile(r"_perf\b[^\n|;&]{0,500}? (NCCL_[A-Z0-9_]{1,60}=\S{0,60})")


def explain(source: LogFile) -> list[Entry]:
    """Return what a file says: one entry for each kind of thing in it, or one of kind unknown."""
    if source.problem:
        return [Unknown(source.name, (source.problem,))]
    entries = list(_entries(source))
    if not entries:
        kinds = (
            "a log of nccl-tests, NCCL or the kernel, nor a matrix of nvidia-smi topo -m or -p2p"
        )
        return [Unknown(source.name, (*source.notes, f"this is not {kinds}"))]
    return [replace(entry, notes=(*entry.notes, *source.notes)) for entry in entries]


def _entries(source: LogFile) -> Iterator[Entry]:
    yield from matrix.read(source.name, source.text)
    kernel = kernel_log.read(source.name, source.text)
    if kernel:
        yield kernel
    tables = _tables(source.text)
    if tables:
        info = nccl_info.read(source.text)
        commands = commands_of(source.text)
        runs = runs_of(tables, broken_off.messages(source.text), _announced(source.text, commands))
        notes = (
            *nccl_log.info_notes(info),
            *nccl_log.fabric_notes(source.text),
            *environment.notes(info, commands),
            *network_notes.notes(runs, info, commands),
            *diag_notes.notes(source.text, runs),
            *_command_notes(source.text),
        )
        yield Benchmarks(source.name, runs, info, tuple(notes), commands=commands)
        return
    log = nccl_log.read(source.name, source.text)
    if log:
        yield log
    of_nccl = () if log else diag_notes.notes(source.text)
    notes_of_all = (*smi.notes(source.text), *acs.notes(source.text), *of_nccl)
    if notes_of_all:
        yield Unknown(source.name, notes_of_all)


def _tables(content: str) -> list[Table]:
    if content.lstrip()[:1] == "{":
        table = json_form.read(content)
        if table is not None:
            return [table]
    tables = text.read(content)
    # A failure without a table is only one of nccl-tests where one of its programs is named.
    return [each for each in tables if each.columns or each.announced or each.rows or each.program]


def _announced(content: str, commands: Sequence[CommandLine]) -> int | None:
    """Return the largest size that was asked for and that fits, where a command tells it."""
    max_bytes = commands[0].max_bytes if len(commands) == 1 else None
    fits = broken_off.reduced_bytes(content)
    return min(filter(None, (max_bytes, fits)), default=None)


def _command_notes(content: str) -> Iterator[str]:
    late = _LATE_SETTING.search(content)
    if late:
        yield (
            f"{late.group(1)} stands after the program's name, where it is an argument and not a "
            "setting: NCCL did not see it"
        )
