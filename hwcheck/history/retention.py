"""Which runs may go by age and by count, and which never do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from hwcheck.errors import UsageError
from hwcheck.history.views import History
from hwcheck.results.run_folder import read_meta

ACCEPTANCE = "acceptance.json"
"""A run folder with this file, or of an acceptance that has it, is kept whatever its age."""
GOING = ".going-"
"""What a folder is named while it is deleted: half of a run must not be taken for one."""


@dataclass(frozen=True)
class Retention:
    """The folders that may go, and those that would but are kept, with the reason."""

    going: tuple[Path, ...]
    kept: tuple[tuple[Path, str], ...]


def plan(history: History, before: datetime | None, most: int | None) -> Retention:
    """Return what goes: runs that began before a time (UTC), and all but the newest ``most``.

    A host's last green run stays, and an acceptance. Runs that are not in the history stay as well:
    one may be under way.
    """
    runs = history.rows("SELECT run, started FROM runs ORDER BY started DESC, run DESC")
    last_green = dict(
        history.rows(
            "SELECT run, count(*) FROM (SELECT arg_max(run, (started, run)) AS run FROM hosts "
            "WHERE outcome IN ('pass', 'warn') GROUP BY host) GROUP BY run"
        )
    )
    going, kept = [], []
    for place, (run, started) in enumerate(runs):
        old = before is not None and started < before
        if not old and (most is None or place < most):
            continue
        folder = history.folders.get(run)
        if folder is None:  # a file names a run that is not its folder's
            continue
        reason = _must_stay(folder)
        if reason:
            kept.append((folder, reason))
        elif run in last_green:
            kept.append((folder, f"the last green run of {last_green[run]} hosts"))
        else:
            going.append(folder)
    return Retention(tuple(going), tuple(kept))


def _must_stay(folder: Path) -> str:
    """Return why a run is kept whatever its age, or an empty text."""
    # A run of an acceptance is two folders below the file, and says so wherever it was copied to.
    if any(os.path.lexists(each / ACCEPTANCE) for each in (folder, folder.parent.parent)):
        return "it is an acceptance"
    try:
        meta = read_meta(folder)
    except UsageError:
        return "its run.json cannot be read, so that it may be of an acceptance"
    return "it is of an acceptance" if meta and meta.acceptance else ""


def delete(runs: Path, folders: Sequence[Path]) -> None:
    """Delete these folders, and what a deletion that was cut short left. Raises UsageError."""
    try:
        for folder in folders:
            os.replace(folder, runs / f"{GOING}{folder.name}")
        for name in os.listdir(runs):
            if name.startswith(GOING):
                shutil.rmtree(runs / name)
    except OSError as error:
        raise UsageError(f"cannot delete {error.filename}: {error.strerror}") from None
