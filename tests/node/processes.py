"""Processes that the tests start: their ends are waited for, never assumed."""

from __future__ import annotations

import time
from pathlib import Path

DEADLINE_S = 20.0


def alive(pid: int) -> bool:
    """Return whether a process runs; one that ended and is not reaped yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def gone(pid: int) -> bool:
    """Wait until a process has ended; return False when it is still there at the deadline."""
    deadline = time.monotonic() + DEADLINE_S
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True
