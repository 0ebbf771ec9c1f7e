"""``sweep run``: the lock of a sweep, its signals, and how its runs are shown."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hwcheck.advise.assessment import Assessment
from hwcheck.cli.display import display
from hwcheck.cli.index_page import write_index
from hwcheck.cli.interrupts import Interrupts
from hwcheck.cli.outcome import show
from hwcheck.cli.output import say
from hwcheck.cli.site_option import catalogue_of, payload_files
from hwcheck.connect import payload
from hwcheck.exit_codes import NOT_MEASURED
from hwcheck.fleet.accept.golden import golden_of
from hwcheck.fleet.sweep import sweep
from hwcheck.fleet.sweep.plans import refuse_what_never_fits
from hwcheck.fleet.sweep.request import BESIDE_JOBS, SweepRequest, plans_now
from hwcheck.fleet.sweep.state import Lock, holder
from hwcheck.fleet.sweep.sweep import Callers

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions


def run(request: SweepRequest, additions: Additions | None, *, verbose: bool) -> int:
    """Sweep, and return the exit code. Raises UsageError and DiskError.

    A night waits for a sweep beside jobs, which is over soon; that one gives way to a night.
    """
    golden_of(request.cluster.hosts)  # a file that cannot be read is refused before anything else
    built = payload.build(payload_files(additions))
    plans = plans_now(request)
    refuse_what_never_fits(plans, request.budget_s)
    stop = threading.Event()
    held_by = holder(request.runs, request.key)
    of_minutes = held_by.startswith(BESIDE_JOBS)
    if request.beside_jobs and held_by and not of_minutes:
        say(f"hwcheck: {request.cluster.source}: not swept while a night is: {held_by}")
        return NOT_MEASURED
    if of_minutes and not request.beside_jobs:
        say(f"hwcheck: {request.cluster.source}: waits for {held_by}")
    waits_for = None if request.beside_jobs else BESIDE_JOBS
    with (
        Lock(request.runs, request.key, request.cluster.source, request.what, waits_for),
        Interrupts(stop) as interrupts,
    ):
        callers = Callers(
            partial(_show, additions),
            interrupts.visits_over,
            partial(write_index, catalogue=catalogue_of(additions)),
        )
        return sweep.run(request, plans, built, display(verbose=verbose), callers, stop)


def _show(additions: Additions | None, path: Path, assessed: Callable[[Assessment], object]) -> int:
    return show(path, additions, as_json=False, assessed=assessed)
