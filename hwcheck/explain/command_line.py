"""The commands that a log shows: the NCCL variables in them, the largest size, the hosts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

LINE_CHARACTERS = 4000
MOST = 100
SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

_PROGRAM = re.compile(r"(?:^|[\s/'\"])[a-z][a-z0-9_]{1,40}_perf(?:_mpi)?(?=\s|$)")
_NO_COMMAND = re.compile(
    r"Collective test|NCCL (?:INFO|WARN)|\b[Ee]rror\b|No such file|command not found|noticed|Rank "
)
# srun --export=ALL,NCCL_X=1,PATH=... has a name after a comma, mpirun -x NCCL_X=a,b a value.
_SET = re.compile(r"\b(NCCL_[A-Z0-9_]{1,80})=((?:(?!,[A-Z][A-Z0-9_]{0,80}(?:[=,]|$))\S){0,1000})")
_MPICH = re.compile(r"\s-g?env\s+(NCCL_[A-Z0-9_]{1,80})\s+(\S{1,400})")
_PASSED = re.compile(r"\s-x\s+(NCCL_[A-Z0-9_]{1,80})(?=\s|$)")
_LARGEST = re.compile(r"(?:^|\s)(?:-e|--maxbytes)[ =]?(\d{1,12})([KMG]?)B?\b", re.I)
_NODES = re.compile(r"(?:^|\s)(?:-N|--nodes)[ =]?(\d{1,5})\b")
_HOSTS = re.compile(r"(?:^|\s)(?:-H|--?hosts?)[ =](\S{1,2000})")
_HOST_FILE = re.compile(r"(?:^|\s)(?:-?-(?:hostfile|machinefile)|-f)[ =](\S{1,400})")
_EXPORT = re.compile(r"^[^\w]*(export|unset)\s+(NCCL_.{1,2000})")


@dataclass(frozen=True)
class CommandLine:
    """One command that started a program of nccl-tests.

    ``env`` are the NCCL variables that it sets, ``passed`` those that it hands on without saying
    their value. ``nodes`` says in words how it names several hosts; empty where it does not.
    """

    env: Mapping[str, str] = field(default_factory=dict)
    passed: tuple[str, ...] = ()
    max_bytes: int | None = None
    nodes: str = ""


def commands_of(text: str) -> tuple[CommandLine, ...]:
    """Return the commands of a log in their order; of a JSON report the one that it is of."""
    if text.lstrip()[:1] == "{":
        return tuple(_of_report(text))
    return tuple(_of_lines(text))


def _of_lines(text: str) -> Iterator[CommandLine]:
    shell: dict[str, str] = {}
    commands = 0
    for each in _lines(text):
        exported = _EXPORT.match(each)
        if exported:
            _export(shell, *exported.groups())
            continue
        program = _PROGRAM.search(each)
        if not program or _NO_COMMAND.search(each) or commands == MOST:
            continue
        before, after = each[: program.start()], each[program.end() :]
        # The bare name of a program may stand anywhere, as in a launcher's message.
        if after.lstrip()[:1] == "-" or "NCCL_" in before or shell:
            commands += 1
            yield _command(before, after, shell)


def _lines(text: str) -> Iterator[str]:
    """Yield the lines that may be commands, those that go on after a backslash as one."""
    if "_perf" not in text:
        return
    whole = ""
    for each in re.split(r"\r\n?|\n", text):
        if not whole and "_perf" not in each and "NCCL_" not in each and each[-1:] != "\\":
            continue
        whole += each[:LINE_CHARACTERS]
        if whole.endswith("\\") and len(whole) < LINE_CHARACTERS:
            whole = whole[:-1] + " "
            continue
        yield whole
        whole = ""
    yield whole


def _export(shell: dict[str, str], verb: str, words: str) -> None:
    if verb == "unset":
        for name in words.split():
            shell.pop(name, None)
    elif len(shell) < MOST:
        shell.update(_settings(words))


def _settings(words: str) -> dict[str, str]:
    """Return what is set in a command, as a shell, mpirun, srun or docker would set it."""
    pairs = (*_SET.findall(words), *_MPICH.findall(words))
    return {name: value.strip("'\"`;")[:200] for name, value in pairs}


def _command(before: str, after: str, shell: Mapping[str, str]) -> CommandLine:
    env = {**shell, **_settings(before)}
    largest = _LARGEST.search(after)
    return CommandLine(
        dict(list(env.items())[:MOST]),
        tuple(_PASSED.findall(before)[:MOST]),
        int(largest.group(1)) * SIZES[largest.group(2).upper()] if largest else None,
        _nodes(before),
    )


def _nodes(before: str) -> str:
    nodes, hosts = _NODES.search(before), _HOSTS.search(before)
    if nodes and int(nodes.group(1)) > 1:
        return f"asks for {nodes.group(1)} nodes"
    if hosts and "," in hosts.group(1):
        return f"names several hosts ({hosts.group(1)[:80]})"
    if "mpi" in before and _HOST_FILE.search(before):
        return "takes its hosts from a file"
    return ""


def _of_report(text: str) -> Iterator[CommandLine]:
    """Yield what a JSON report (``-J``) says; of its environment the NCCL variables alone."""
    try:
        report = json.loads(text)
    except (ValueError, RecursionError):
        return
    listed: Any = report.get("env") if isinstance(report, dict) else None
    if not isinstance(listed, list):
        return
    words = (each for each in listed[:100000] if isinstance(each, str))
    pairs = [pair for word in words if word.startswith("NCCL_") for pair in _SET.findall(word)]
    yield CommandLine(dict(pairs[:MOST]))
