"""The end of a run, as a process of its own that a test kills."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from typing import Any

from hwcheck.cli.outcome import show

NEEDS = (
    *("duckdb", "matplotlib.backends.backend_svg", "matplotlib.figure"),
    *("hwcheck.history.past", "hwcheck.history.rows"),
)
"""Are imported once, before the processes are forked."""
CHANGES = ("open", "os.rename", "os.remove", "os.mkdir")


def end_run(run: Path, steps: Synchronized[int], kill_at: int = 0) -> None:
    """Judge, render and write what is in a folder; what it prints goes nowhere.

    ``steps`` counts what is about to be changed in the folder; at ``kill_at`` the process is
    killed.
    """
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in CHANGES or not str(arguments[0]).startswith(str(run)):
            return
        if event == "open" and not arguments[2] & (os.O_WRONLY | os.O_RDWR):
            return
        steps.value += 1
        if steps.value == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    show(run, None, as_json=True)
