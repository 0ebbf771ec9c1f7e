"""Folders under ``runs/``: new ones for commands that are no validation, and the latest run's."""

from __future__ import annotations

import os
from pathlib import Path

from hwcheck.contract.wire import to_json
from hwcheck.errors import UsageError
from hwcheck.results.files import replace_text, writing_to
from hwcheck.results.run_folder import folder_name, utc_now

LATEST = "latest"
"""The link to the run that ended last, beside the run folders."""


def link_latest(run: Path) -> None:
    """Have ``latest`` beside a run folder lead to it, at once. Raises OSError."""
    link = run.parent / f"{LATEST}.new"
    link.unlink(missing_ok=True)
    link.symlink_to(run.name)
    os.replace(link, run.parent / LATEST)


def named_folder(text: str) -> Path:
    """Return the run folder that is named, by its own name where it is ``runs/latest``."""
    path = Path(text)
    is_link = path.name == LATEST and path.is_symlink()
    return path.parent / os.readlink(path) if is_link else path


def new_folder(out: Path) -> Path:
    """Make ``<UTC time>-<short id>`` under ``out``, as a run's. Raises UsageError."""
    path = out / folder_name(utc_now(), out)
    try:
        path.mkdir(parents=True)
    except OSError as error:
        raise UsageError(
            f"cannot create the run folder: {out}: {error.strerror}; name another with --out"
        ) from None
    return path


def write_record(path: Path, record: object) -> None:
    """Write a record as JSON, a whole file at once. Raises DiskError."""
    with writing_to(path.parent):
        replace_text(path, to_json(record) + "\n")
