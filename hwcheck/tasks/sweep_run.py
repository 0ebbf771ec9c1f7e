"""``sweep run``: a sweep, with the stages that its runs go through."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hwcheck.accept.golden import golden_of
from hwcheck.advise.assessment import Assessment
from hwcheck.connect import payload
from hwcheck.connect.connector import Connector
from hwcheck.connect.payload import Payload
from hwcheck.exit_codes import NOT_MEASURED
from hwcheck.results.run_folder import RunFolder
from hwcheck.run.multi_host.orders import MultiHostOptions
from hwcheck.run.plan import Plan
from hwcheck.sweep import sweep
from hwcheck.sweep.levels import Level
from hwcheck.sweep.plans import refuse_what_never_fits
from hwcheck.sweep.request import BESIDE_JOBS, SweepRequest, plans_now
from hwcheck.sweep.state import Lock, holder
from hwcheck.tasks.index_page import write_index
from hwcheck.tasks.interrupts import Interrupts
from hwcheck.tasks.outcome import show
from hwcheck.tasks.output import say
from hwcheck.tasks.progress import Progress
from hwcheck.tasks.scope import run_multi_host
from hwcheck.tasks.second_visit import make_second_visits
from hwcheck.tasks.site_option import catalogue_of, payload_files, save_site

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
        stages = SweepStages(interrupts, additions, verbose=verbose)
        return sweep.run(request, plans, built, stages, stop)


class SweepStages:
    """The stages of the runs of a sweep (``hwcheck.sweep.stages``)."""

    def __init__(
        self, interrupts: Interrupts, additions: Additions | None, *, verbose: bool
    ) -> None:
        self._additions = additions
        self.visits_over = interrupts.visits_over
        self._verbose = verbose

    def say(self, text: str) -> None:
        """Write a line to stderr."""
        say(f"hwcheck: {text}")

    def new_folder(self, runs: Path, plan: Plan) -> RunFolder:
        """Make a run folder with the site's files and the golden hosts."""
        folder = RunFolder.create(runs, plan.meta)
        save_site(self._additions, folder.path)
        folder.write_golden(golden_of(plan.hosts))
        return folder

    def progress(self, hosts: int, forks: int) -> Progress:
        """Show how far the visits are."""
        return Progress(hosts, forks=forks, verbose=self._verbose)

    def run_together(
        self, level: Level, plan: Plan, payload: Payload, folder: RunFolder, connector: Connector
    ) -> None:
        """Run the scopes of a level over the hosts of the plan."""
        run_multi_host(
            *(level.scopes, MultiHostOptions(), plan, payload, folder, connector),
            verbose=self._verbose,
        )

    def second_visits(
        self,
        plan: Plan,
        payload: Payload,
        folder: RunFolder,
        connector: Connector,
        *,
        forks: int,
        given_up: Mapping[str, str],
    ) -> None:
        """Measure again what lies on a border."""
        make_second_visits(
            *(plan, payload, folder, connector),
            forks=forks,
            verbose=self._verbose,
            given_up=given_up,
        )

    def show(self, path: Path, assessed: Callable[[Assessment], object]) -> int:
        """Judge, report and return the exit code."""
        return show(path, self._additions, as_json=False, assessed=assessed)

    def write_index(self, runs: Path) -> None:
        """Write the page of the fleet over its nights."""
        write_index(runs, catalogue_of(self._additions))
