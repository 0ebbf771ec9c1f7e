"""A sweep as a process of its own that a test kills."""

import os
import sys

import duckdb  # noqa: F401 - loaded once, before the processes are forked

from hwcheck.cli.sweep_run import run
from hwcheck.fleet.sweep.request import SweepRequest
from hwcheck.history import rows  # noqa: F401


def sweep(request: SweepRequest) -> None:
    """Sweep; what it prints goes nowhere, and the exit code is the process's."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as it lives
    sys.exit(run(request, None, verbose=False))
