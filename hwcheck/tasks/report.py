"""``fab report``: a saved run, judged and rendered again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from invoke import Context

from hwcheck.errors import UsageError
from hwcheck.results.folders import named_folder
from hwcheck.tasks.command import command, end
from hwcheck.tasks.flags import COVERAGE_HELP, percent
from hwcheck.tasks.outcome import show
from hwcheck.tasks.site_option import with_site

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions


@command(
    positional=["run"],
    optional=["require_coverage", "out"],
    help={
        "run": "the run folder (runs/latest: the one that ended last)",
        "out": "folder for the reports; nothing is written into the run folder then",
        "json": "print a machine-readable summary on stdout",
        **COVERAGE_HELP,
        "site": "folder of a site's checks, models, rules and templates, whose code is run",
    },
)
@with_site
def report(
    ctx: Context,  # noqa: ARG001
    run: str,
    out: str | None = None,
    json: bool = False,
    require_coverage: str | None = None,
    site: str | None = None,  # noqa: ARG001 - with_site takes it
    *,
    additions: Additions | None,
) -> None:
    """Judge and render a saved run again, with no host."""
    required = percent(require_coverage)
    if out is not None and not out.strip():
        raise UsageError("--out is empty; name a folder, or leave it out for the run folder")
    folder = Path(out) if out else None
    run_folder = named_folder(run)
    end(show(run_folder, additions, as_json=json, required_percent=required, out=folder))
