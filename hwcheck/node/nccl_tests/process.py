"""Run a program with a wall clock; nothing of it is left when it is over."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Callable, List, Mapping, Optional

from hwcheck.node import descendants, torch_process
from hwcheck.node.collective.ranks import wait_until

BOOT = torch_process.BOOT % "hwcheck.node.parent_death"
MOST_BYTES = 16 * 1024 * 1024
EXIT_S = 5.0
LOOK_S = 1.0


@dataclass(frozen=True)
class ProgramResult:
    """How a program ended: ``code`` as subprocess has it, what it wrote, and who ended it.

    ``why`` is empty where it ended by itself; ``time`` by its wall clock, ``stopped`` by whoever
    watched its lines, ``output`` because it wrote too much. ``stuck``: it did not even die.
    """

    code: int
    output: str
    why: str
    stuck: bool
    duration_s: float


def within(limit_s: float) -> Callable[[], float]:
    """Return the end of so many seconds from now on, for ``run``."""
    end = time.monotonic() + limit_s
    return lambda: end


def run(
    command: List[str],
    env: Mapping[str, str],
    payload: str,
    until: Callable[[], float],
    goes_on: Optional[Callable[[str], bool]] = None,
    *,
    ends_at_term: bool = False,
) -> ProgramResult:
    """Run ``command`` in a process group of its own; stdout and stderr come as one text.

    ``until`` says, on the monotonic clock, when it is ended; it is asked again and again, once a
    second at least.
    ``goes_on`` is shown each line and says whether the program may go on. With ``ends_at_term`` it
    has a daemon work for it, and is given time to stop that before it is killed.
    """
    start = time.monotonic()
    death = signal.SIGTERM if ends_at_term else signal.SIGKILL
    boot = [sys.executable, "-c", BOOT, payload, str(os.getpid()), str(int(death)), *command]
    process = subprocess.Popen(
        boot,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=dict(env),
        start_new_session=True,
    )
    taken: List[bytes] = []
    with descendants.ended_first(process.pid if ends_at_term else None):
        try:
            why = _read(process, until, taken, goes_on)
        finally:
            descendants.end_first()
            stuck = not _end(process)
    output = b"".join(taken).decode("utf-8", "replace")
    code = -signal.SIGKILL if process.returncode is None else process.returncode
    return ProgramResult(code, output, why, stuck, time.monotonic() - start)


def _read(
    process: subprocess.Popen[bytes],
    until: Callable[[], float],
    taken: List[bytes],
    goes_on: Optional[Callable[[str], bool]],
) -> str:
    """Read until the end of the output; return why it is not read any further."""
    assert process.stdout is not None
    fd, rest, size = process.stdout.fileno(), b"", 0
    while True:
        left_s = until() - time.monotonic()
        if left_s <= 0:
            return "time"
        if not select.select([fd], [], [], min(left_s, LOOK_S))[0]:
            continue
        data = os.read(fd, 65536)
        if not data:
            over = wait_until(lambda: _has_ended(process), max(0.0, until() - time.monotonic()))
            return "" if over else "time"
        size += len(data)
        if size > MOST_BYTES:
            return "output"
        taken.append(data)
        *lines, rest = (rest[-65536:] + data).split(b"\n")
        if goes_on and not all(goes_on(line.decode("utf-8", "replace")) for line in lines):
            return "stopped"


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether it has; it is not waited for yet, so its group's number cannot be anyone else's."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None


def _end(process: subprocess.Popen[bytes]) -> bool:
    """Kill what is left of the group; return whether the program is gone."""
    assert process.stdout is not None
    process.stdout.close()
    os.killpg(process.pid, signal.SIGKILL)
    try:
        process.wait(EXIT_S)
    except subprocess.TimeoutExpired:
        return False
    return True
