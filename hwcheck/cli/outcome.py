"""From a run folder to what its operator sees: read, assess, render, write, print, exit code."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hwcheck.advise.assessment import Assessment, LastRuns, assess
from hwcheck.advise.nccl_files import FOLDER, nccl_files
from hwcheck.cli.output import emit, rendered, say
from hwcheck.cli.site_option import catalogue_of, refuse_without_site
from hwcheck.contract.check import Check
from hwcheck.errors import UsageError
from hwcheck.history import dataset
from hwcheck.history.dataset import DuckDBMissingError
from hwcheck.history.events import Name, names_of
from hwcheck.history.last_runs import last_runs
from hwcheck.history.past import past_of
from hwcheck.history.views import History
from hwcheck.judge.own_past import MOST_RUNS
from hwcheck.judge.past import Past
from hwcheck.report.html import html
from hwcheck.report.junit import junit
from hwcheck.report.load_plots import drawn_hosts
from hwcheck.report.markdown import markdown
from hwcheck.report.retry import retry
from hwcheck.report.samples_csv import samples_csv
from hwcheck.report.summary import summary
from hwcheck.report.terminal import terminal
from hwcheck.results.multi_host import read_multi_host
from hwcheck.results.run_folder import Run, read_run, read_series, write_rendered
from hwcheck.results.training import read_training

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector away: millions of records are built here, and none is garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_uncollected()
def show(
    path: Path,
    additions: Additions | None,
    *,
    as_json: bool,
    required_percent: float | None = None,
    assessed: Callable[[Assessment], object] | None = None,
    silent: bool = False,
    out: Path | None = None,
) -> int:
    """Judge and render a run folder anew, print what it says, and return the exit code.

    ``additions`` are a site's, None where there are none.
    With ``required_percent`` a run of which less was measured, on any host, does not pass.
    ``assessed`` is handed the judged run, where more is wanted than the exit code; ``silent``: only
    the reports are written. With ``out`` they are written there, and nothing into the run folder.
    Raises UsageError when the folder is damaged or cannot be written to, or stdout cannot.
    """
    assessment, last = _assessed(path, additions, required_percent)
    hosts = drawn_hosts(assessment.run, assessment.judgement, assessment.catalogue.checks)
    series = {host: observed for host in hosts if (observed := read_series(path, host))}
    assessment = replace(assessment, series=series, last_runs=last)
    write_rendered(
        out or path,
        {
            "report.html": html(assessment),
            "report.md": markdown(assessment),
            "junit.xml": junit(assessment),
            "retry": retry(assessment),
            "samples.csv": samples_csv(assessment),
            **nccl_files(assessment.advice),
        },
        anew="" if out else FOLDER,  # what else lies in a folder that is named is not ours
    )
    if out is None:
        _into_history(path, assessment)
    if assessed is not None:
        assessed(assessment)
    if silent:
        return assessment.judgement.exit_code
    if as_json:
        text = json.dumps(summary(assessment), indent=1, allow_nan=False) + "\n"
    else:
        text = rendered(terminal(assessment, out))
    emit(text, f"; the reports are in {out or path}")
    return assessment.judgement.exit_code


def judged(path: Path, additions: Additions | None) -> Assessment:
    """Judge a run folder as ``show`` does; nothing is written. Raises UsageError as ``show``."""
    return _assessed(path, additions, None)[0]


def _assessed(
    path: Path, additions: Additions | None, required_percent: float | None
) -> tuple[Assessment, Mapping[str, LastRuns]]:
    run = read_run(path)
    refuse_without_site(additions, path, run.meta)
    catalogue = catalogue_of(additions)
    with _former_runs(path) as history:
        names, past = _past(history, run, catalogue.checks)
        assessment = assess(
            run, catalogue, read_multi_host(path), required_percent, past, read_training(path)
        )
        last = last_runs(history, assessment.judgement, names, run.meta.started) if history else {}
    return assessment, last


@contextmanager
def _former_runs(path: Path) -> Iterator[History | None]:
    """Open the runs beside this one that came before it; None without DuckDB.

    What is amiss with one of them, the history's own commands say.
    """
    try:
        history = History.open(path.parent, before=path.name, newest=MOST_RUNS)
    except DuckDBMissingError:
        yield None
        return
    with history:
        yield history


def _past(
    history: History | None, run: Run, checks: Mapping[str, Check]
) -> tuple[Sequence[Name], Past | None]:
    """Return the names that the hosts had, and what former runs measured of them.

    Where that cannot be read it is said.
    """
    if history is None:
        return (), None
    try:
        names = names_of(history, run)
        return names, past_of(history, names, run.meta.started, checks)
    except UsageError as error:
        say(f"hwcheck: not judged against former runs: {error}")
        return (), None


def _into_history(path: Path, assessment: Assessment) -> None:
    """Write what the history reads of a run. Raises DiskError; without DuckDB it is said."""
    try:
        dataset.write(path, assessment)
    except DuckDBMissingError as error:
        say(f"hwcheck: {error}")
