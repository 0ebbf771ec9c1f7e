"""The end of a run, as a process of its own that a test kills."""

import os
import sys
from pathlib import Path

import duckdb  # noqa: F401 - loaded once, before the processes are forked

from hwcheck.history import past, rows  # noqa: F401
from hwcheck.tasks.outcome import show


def end_run(run: Path) -> None:
    """Judge, render and write what is in a folder; what it prints goes nowhere."""
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - for as long as the process lives
    show(run, as_json=True)
