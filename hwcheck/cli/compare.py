"""``hwcheck compare``: two runs, host by host."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hwcheck.cli.command import command, fab_task, option, word
from hwcheck.cli.dataset import format_flag, history_of, runs_flag, write_picture
from hwcheck.cli.output import emit, rendered
from hwcheck.cli.site_option import all_checks, site_flag, with_site
from hwcheck.cli.values import Folder, OneOf
from hwcheck.errors import UsageError
from hwcheck.history.compare import compare as compare_runs
from hwcheck.history.compare import compare_last_green
from hwcheck.history.names import name_among
from hwcheck.history.views import History
from hwcheck.report.history import FORMATS, answer_text, comparison_answer, comparison_text
from hwcheck.results.folders import named_folder
from hwcheck.text import line

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions

__getattr__ = fab_task(__name__)

GREEN = "green"
PAGE = ".html"


@command(
    "compare",
    examples=(
        "hwcheck compare 20260101T030000Z-1a2b3c 20260102T030000Z-4d5e6f",
        "hwcheck compare runs/latest --last green",
        "hwcheck compare runs/latest --last green --output drift.html",
    ),
)
@word(
    "run",
    type=Folder(),
    help="a run, by its folder or its folder's name; with --last the run that is compared",
)
@word("later", type=Folder(), required=False, help="the run that is compared with it")
@option("--last", type=OneOf((GREEN,)), help="green: compare each host with its own last green run")
@format_flag
@option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    default="",
    help="draw it: FILE.html",
)
@runs_flag
@site_flag("folder of a site's checks, which say what of their metrics is compared")
@with_site
def cli(
    *,
    run: str,
    later: str | None,
    last: str | None,
    format_: str,
    output: str,
    runs: str,
    site: str | None,  # noqa: ARG001 - with_site takes it
    additions: Additions | None,
) -> None:
    """Say what changed between two runs: outcomes, GPUs, versions, settings, figures."""
    if output and Path(output).suffix != PAGE:
        raise UsageError(f"--output {output}: it draws {PAGE}; end the name so")
    if bool(later) == bool(last):
        raise UsageError("compare: name two runs, or one run and --last green")
    every = all_checks(additions)
    two = (Path(run).name, Path(later).name) if later else ()
    with history_of(runs, only=two) as past:
        first = run_named(past, run)
        compared = (
            compare_runs(past, first, run_named(past, later), every)
            if later
            else compare_last_green(past, first, every)
        )
    if output:
        from hwcheck.report.comparison import comparison_html  # not above: Jinja is for pages

        write_picture(output, comparison_html(compared).encode())
    elif format_ == FORMATS[0]:
        emit(rendered(comparison_text(compared)))
    else:
        text = answer_text(comparison_answer(compared), format_)
        assert isinstance(text, str)
        emit(text)


def run_named(history: History, name: str) -> str:
    """Return the run of this name, or whose folder this is. Raises UsageError with the nearest."""
    last = named_folder(name).name
    for run, folder in history.folders.items():
        if folder.name == last:
            return run
    folders = [path.name for path in history.runs.iterdir() if (path / "run.json").exists()]
    name_among("run", last, folders)
    raise UsageError(f"{line(last, 80)}: it is not in the history; hwcheck history says why")
