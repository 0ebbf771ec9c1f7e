"""Runs a program of the scheduler, within limits and without the filters of the caller."""

from __future__ import annotations

import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence

from hwcheck import text
from hwcheck.errors import UsageError

LIMIT_S = 60.0
"""Slurm's commands give up on a controller that is silent after MessageTimeout, 10 s at first."""
END_S = 5.0
MOST_BYTES = 32 << 20
"""sinfo writes some 150 bytes for a node in a partition: enough for 10,000 nodes in 20 each."""
KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT")
FILTERS = ("SCONTROL_", "SINFO_", "SLURM_", "SQUEUE_")
"""Variables by which these programs would list another cluster, or less than all of this one."""


def run(words: Sequence[str], limit_s: float = LIMIT_S) -> tuple[int, str, str]:
    """Return exit code, stdout and stderr of a program. Raises UsageError, which names it."""
    name = words[0]
    program = shutil.which(name)
    if program is None or not os.path.isabs(program):  # PATH may have the current folder
        raise UsageError(f"{name}: not found on this machine; run hwcheck where it is installed")
    try:
        process = subprocess.Popen(
            [program, *words[1:]],
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as error:
        raise UsageError(f"{name}: cannot be run: {error.strerror}") from None
    try:
        stdout, stderr = _read(process, name, time.monotonic() + limit_s, limit_s)
        process.wait(END_S)  # it has closed both
    except subprocess.TimeoutExpired:
        raise UsageError(f"{name}: does not end") from None
    finally:
        _kill(process)
    return process.returncode, stdout, stderr


def _read(
    process: subprocess.Popen[bytes], name: str, end: float, limit_s: float
) -> tuple[str, str]:
    """Return all of stdout and stderr. Raises UsageError where there is no end to them."""
    assert process.stdout is not None
    assert process.stderr is not None
    taken = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    with selectors.DefaultSelector() as selector, process.stdout, process.stderr:
        for pipe in taken:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            left_s = end - time.monotonic()
            ready = selector.select(left_s) if left_s > 0 else []
            if not ready:
                raise UsageError(f"{name}: no answer within {limit_s:g} s")
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                if not data:
                    selector.unregister(key.fd)
                taken[key.fd] += data
            if sum(map(len, taken.values())) > MOST_BYTES:
                raise UsageError(f"{name}: answers with more than {text.binary_size(MOST_BYTES)}")
    stdout, stderr = (bytes(data).decode("utf-8", "replace") for data in taken.values())
    return stdout, stderr


def _kill(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):  # it is stuck in the kernel
            process.wait(END_S)


def _environment() -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in KEPT or not name.startswith(FILTERS)
    }
    return {**kept, "LC_ALL": "C"}
