"""``hwcheck report``: a saved run, judged and rendered again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from hwcheck.cli.command import command, end, fab_task, flag, option, word
from hwcheck.cli.flags import coverage_flag
from hwcheck.cli.outcome import show
from hwcheck.cli.site_option import site_flag, with_site
from hwcheck.cli.values import Folder
from hwcheck.results.folders import named_folder

__getattr__ = fab_task(__name__)

if TYPE_CHECKING:
    from hwcheck.site.additions import Additions


@command(
    "report",
    examples=(
        "hwcheck report runs/latest",
        "hwcheck report runs/latest --json",
        "hwcheck report runs/latest --require-coverage 95 --out pages",
    ),
)
@word("run", type=Folder(), help="the run folder (runs/latest: the one that ended last)")
@option(
    "--out",
    type=Folder("the run folder"),
    help="folder for the reports; nothing is written into the run folder then",
)
@flag("--json", "as_json", help="print a machine-readable summary on stdout")
@coverage_flag
@site_flag("folder of a site's checks, models, rules and templates, whose code is run")
@with_site
def cli(
    *,
    run: str,
    out: str | None,
    as_json: bool,
    require_coverage: float | None,
    site: str | None,  # noqa: ARG001 - with_site takes it
    additions: Additions | None,
) -> None:
    """Judge and render a saved run again, with no host."""
    folder = Path(out) if out else None
    end(
        show(
            named_folder(run),
            additions,
            as_json=as_json,
            required_percent=require_coverage,
            out=folder,
        )
    )
