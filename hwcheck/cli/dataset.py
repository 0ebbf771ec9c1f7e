"""What the commands of the history share: their flags, and the folder of runs opened."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from hwcheck.cli.command import option
from hwcheck.cli.output import say
from hwcheck.cli.values import OneOf, Since
from hwcheck.errors import UsageError
from hwcheck.history.dataset import KINDS
from hwcheck.history.views import History
from hwcheck.report.history import FORMATS, left_out_lines
from hwcheck.results.files import replace_file

RUNS = "runs"
runs_flag = option(
    "--runs",
    type=click.Path(file_okay=False),
    metavar="FOLDER",
    default=RUNS,
    help=f"folder of the run folders (default: {RUNS})",
)
since_flag = option(
    "--since", type=Since(), help="only runs from this day (2026-01-31) or of so long (30d, 12h)"
)
format_flag = option(
    "--format",
    "format_",
    type=OneOf(FORMATS),
    default=FORMATS[0],
    help="table (default), csv or json",
)
OPEN: list[History] = []


@contextmanager
def history_of(
    runs: str, only: Collection[str] = (), kinds: Sequence[str] = KINDS
) -> Iterator[History]:
    """Open the history of a folder, and name the folders that are left out. Raises UsageError.

    It is left open (``OPEN``): as a rule the process ends with the command, and to free what a year
    of files says of itself takes a twentieth of a second.
    """
    if not runs.strip():
        raise UsageError("--runs is empty; name the folder of the runs, or leave --runs out")
    history = History.open(Path(runs), only=only, kinds=kinds)
    OPEN.append(history)
    yield history
    for text in left_out_lines(history.left_out):
        say(f"hwcheck: {text}")


def write_picture(output: str, picture: bytes) -> None:
    """Write a picture or page as a whole, and say where it is. Raises UsageError."""
    try:
        replace_file(Path(output), picture)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
    say(f"hwcheck: {output}")
