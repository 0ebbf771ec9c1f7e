"""A new folder under ``runs/`` for a command that is no validation."""

from __future__ import annotations

from pathlib import Path

from hwcheck.errors import UsageError
from hwcheck.node.wire import to_json
from hwcheck.results.files import replace_text, writing_to
from hwcheck.results.run_folder import folder_name, utc_now


def new_folder(out: Path) -> Path:
    """Make ``<UTC time>-<short id>`` under ``out``, as a run's. Raises UsageError."""
    path = out / folder_name(utc_now())
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
