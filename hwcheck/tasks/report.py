"""``fab report``: a saved run, judged and rendered again."""

from __future__ import annotations

from pathlib import Path

from invoke import Context

from hwcheck.tasks.command import command, end
from hwcheck.tasks.outcome import show


@command(
    positional=["run"],
    help={"run": "the run folder", "json": "print a machine-readable summary on stdout"},
)
def report(ctx: Context, run: str, json: bool = False) -> None:  # noqa: ARG001
    """Judge and render a saved run again, with no host."""
    end(show(Path(run), as_json=json))
