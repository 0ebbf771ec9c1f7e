"""A new folder under ``runs/`` for a command that is no validation."""

from __future__ import annotations

import secrets
from pathlib import Path

from hwcheck.errors import UsageError
from hwcheck.files import replace_text, writing_to
from hwcheck.results import utc_now
from hwcheck.wire import to_json


def new_folder(out: Path) -> Path:
    """Make ``<UTC time>-<short id>`` under ``out``, as a run's. Raises UsageError."""
    stamp = utc_now().replace("-", "").replace(":", "")
    path = out / f"{stamp}-{secrets.token_hex(3)}"
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
