"""What can befall a host while a visit is under way, done to its processes."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.lab.network import kill
from tests.lab.waiting import wait_until

SETTLE_S = 10.0
GARBAGE = "\x01\x7f not json {{{\n@hwcheck: {}"
SCRIPT = "#!/bin/sh\nprintf '\\001\\177 not json {{{\\n@hwcheck: {}\\n'\n"

Processes = Callable[[], Sequence[int]]


def freeze(processes: Processes) -> None:
    """Stop every process, also those that are started meanwhile. Returns when all stand still."""

    def all_stand_still() -> bool:
        running = [pid for pid in processes() if _state(pid) not in ("", "T", "Z")]
        for pid in running:
            _signal(pid, signal.SIGSTOP)
        return not running

    wait_until(all_stand_still, SETTLE_S)


def thaw(processes: Processes) -> None:
    """Let every process go on."""
    for pid in processes():
        _signal(pid, signal.SIGCONT)


def end(processes: Processes) -> None:
    """Kill every process, also those that are started meanwhile. Returns when none is left."""

    def all_gone() -> bool:
        left = processes()
        for pid in left:
            kill(pid)
        return not left

    wait_until(all_gone, SETTLE_S)


def _state(pid: int) -> str:
    """Return the letter of a process's state; empty when it has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def write_garbage(visitors: Sequence[int]) -> list[subprocess.Popen[bytes]]:
    """Write garbage to wherever visits under way write their answers, until nobody reads it.

    Returns the writers.
    """
    writers = []
    for path in answers(visitors):
        with path.open("wb") as stream:
            command = ["yes", GARBAGE]
            quiet = subprocess.DEVNULL
            writers.append(subprocess.Popen(command, stdin=quiet, stdout=stream, stderr=quiet))
    return writers


def answers(visitors: Sequence[int]) -> list[Path]:
    """Return the standard output of each session: the pipes to sshd that are no stderr."""
    pipes = {pid: _pipes(pid) for pid in visitors}
    sshd = [pid for pid in visitors if _name(pid).startswith("sshd")]
    to_sshd = {pipe for pid in sshd for pipe in pipes[pid].values()}
    found: dict[str, Path] = {}
    for pid in set(visitors) - set(sshd):
        others = {pipes[pid].get(number) for number in (0, 2)}  # the payload's fd 1 is its stderr
        for number, pipe in pipes[pid].items():
            if pipe in to_sshd - others:
                found[pipe] = Path(f"/proc/{pid}/fd/{number}")
    return list(found.values())


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _pipes(pid: int) -> dict[int, str]:
    """Return the pipes that a process has open, by file descriptor."""
    found = {}
    for path in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            target = os.readlink(path)
        except FileNotFoundError:
            continue  # closed meanwhile
        if target.startswith("pipe:"):
            found[int(path.name)] = target
    return found
