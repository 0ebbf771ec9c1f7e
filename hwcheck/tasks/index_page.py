"""``index.html`` of a folder of runs: the fleet over its nights, with links to the reports."""

from __future__ import annotations

import os
import re
from datetime import datetime, timedelta
from pathlib import Path

from hwcheck.history.fleet import MOST_NIGHTS, fleet_of
from hwcheck.history.views import History, LeftOut
from hwcheck.render.fleet import fleet_page
from hwcheck.results.files import replace_text, writing_to

INDEX = "index.html"
_DAY = re.compile(r"([0-9]{8})T")


def write_index(runs: Path) -> list[LeftOut]:
    """Write the page into the folder and return what is not in it.

    Raises UsageError where there is no such folder, and DiskError; DuckDBMissingError.
    """
    with History.open(runs, only=_recent(runs), kinds=("hosts", "findings")) as history:
        page = fleet_page(fleet_of(history))
        left_out = history.left_out
    with writing_to(runs):
        replace_text(runs / INDEX, page)
    return left_out


def _recent(runs: Path) -> list[str]:
    """Return the run folders of the nights that the page shows: their names begin with the day."""
    names = os.listdir(runs) if runs.is_dir() else []
    days = sorted({match[1] for name in names if (match := _DAY.match(name))})
    if not days:
        return []
    try:
        newest = datetime.strptime(days[-1], "%Y%m%d")  # noqa: DTZ007 - all are UTC
    except ValueError:
        return []
    first = f"{newest - timedelta(days=MOST_NIGHTS):%Y%m%d}"
    return [name for name in names if name >= first]
