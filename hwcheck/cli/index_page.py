"""``index.html`` of a folder of runs: the fleet over its nights, with links to the reports."""

from __future__ import annotations

from pathlib import Path

from hwcheck.advise.catalogue import Catalogue
from hwcheck.history.fleet import fleet_of, recent_runs
from hwcheck.history.views import History, LeftOut
from hwcheck.report.fleet import fleet_page
from hwcheck.results.files import replace_text, writing_to

INDEX = "index.html"


def write_index(runs: Path, catalogue: Catalogue) -> list[LeftOut]:
    """Write the page into the folder and return what is not in it.

    Raises UsageError where there is no such folder, and DiskError; DuckDBMissingError.
    """
    with History.open(runs, only=recent_runs(runs), kinds=("hosts", "findings")) as history:
        page = fleet_page(fleet_of(history), catalogue)
        left_out = history.left_out
    with writing_to(runs):
        replace_text(runs / INDEX, page)
    return left_out
