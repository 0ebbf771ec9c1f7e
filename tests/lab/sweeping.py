"""A sweep as a process of its own that a test kills."""

import os
import sys

import duckdb  # noqa: F401 - loaded once, before the processes are forked

from hwcheck.history import rows  # noqa: F401
from hwcheck.tasks import sweep_run

CHECKS = ("file_systems", "host_memory")
"""They load nothing, and each host answers within a second."""


def sweep(asked: sweep_run.SweepRequest) -> None:
    """Sweep; what it prints goes nowhere, and the exit code is the process's."""
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - for as long as it lives
    sweep_run.checks_of = lambda level: CHECKS
    sys.exit(sweep_run.run(asked))
