"""A child process under the interpreter that has torch: what both of its ends need."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import IO, Callable, Mapping, Optional, Tuple, Union

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.reasons import NO_TORCH
from hwcheck.node import descendants, json_lines
from hwcheck.node.json_lines import Send

BOOT = (
    "import sys; sys.path[:] = [sys.argv[1]] + list(filter(None, sys.path)); "
    "from %s import main; main()"
)
"""An empty entry would let a file in the current folder stand in for a module."""

IMPORT_LIMIT_S = 120.0  # torch from a cold network file system
KILL_LIMIT_S = 5.0
ADVICE = "set hwcheck_torch_python to an interpreter that has"


def start(
    python: str,
    boot: str,
    payload: str,
    stdin: Union[int, IO[bytes]],
    log_fd: int,
    env: Optional[Mapping[str, str]] = None,
) -> subprocess.Popen[bytes]:
    """Start ``boot`` under ``python``; ``sys.argv`` has the payload's path.

    Raises CouldNotMeasure when the interpreter cannot be started.
    """
    command = [python, "-c", boot, payload]
    try:
        return subprocess.Popen(
            command, stdin=stdin, stdout=subprocess.PIPE, stderr=log_fd, env=env
        )
    except OSError as error:
        raise CouldNotMeasure(
            "%s cannot be started (%s): %s torch" % (python, error.strerror, ADVICE), NO_TORCH
        ) from None


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill the child and what it started: it may be a wrapper, with sessions below it."""
    below = descendants.of(process.pid)
    process.kill()
    for pid in below:
        descendants.kill(pid)
    assert process.stdout is not None
    if process.stdin is not None:
        process.stdin.close()
    process.stdout.close()
    try:
        process.wait(KILL_LIMIT_S)
    except subprocess.TimeoutExpired:
        sys.stderr.write("process %d does not die: it is stuck in the kernel\n" % process.pid)


def death(code: int, python: str, log_tail: str) -> str:
    """Say how the child ended, with the last line that it printed."""
    how = "was killed by signal %d" % -code if code < 0 else "exited with code %d" % code
    last = log_tail.rsplit("\n", 1)[-1]
    return "%s, started to import torch, %s: %s" % (python, how, last[:200])


def sender() -> Tuple[Send, int]:
    """Return what writes a message to the stdout that this process was started with, and its fd.

    Called in the child, once; from then on whatever else prints goes to stderr.
    """
    out = os.dup(1)
    os.dup2(2, 1)

    return partial(json_lines.write, out), out


def torch_problem(lack: Callable[[], str]) -> str:
    """Return why torch cannot measure here, or an empty text. Called in the child.

    ``lack`` imports torch and says what this one does not have.
    """
    where = "under %s: %s it" % (sys.executable, ADVICE)
    try:
        missing = lack()
    except ImportError as error:
        if error.name in ("torch", "torch.distributed"):
            return "no torch " + where
        return "torch cannot be imported (%s) %s" % (error, where)
    return "%s %s" % (missing, where) if missing else ""
