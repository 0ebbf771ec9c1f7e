"""The folder of an acceptance: what it is about, its criteria, its runs, the files of its record.

``acceptance.json`` says what it is about, ``criteria.yml`` is a copy of the criteria as they were
when it began, ``runs/`` has a folder for each run of a stage.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any

from hwcheck import __version__
from hwcheck.advise.catalogue import Catalogue
from hwcheck.contract.wire import to_json
from hwcheck.errors import UsageError
from hwcheck.fleet.accept.criteria import Criteria, read_criteria
from hwcheck.fleet.accept.record import read_member
from hwcheck.results.files import read_json, replace_text, writing_to
from hwcheck.results.run_folder import utc_now
from hwcheck.results.schema_check import schema_problem
from hwcheck.text import line

FORMAT = 1
ABOUT = "acceptance.json"
CRITERIA = "criteria.yml"
RUNS = "runs"
DERIVED = (".parquet", ".new")
"""Files of a run folder that are made again from the others."""


@dataclass(frozen=True)
class About:
    """``acceptance.json``: which acceptance a folder is of; ``sha256`` is that of its criteria."""

    id: str
    started: str
    inventory: str
    criteria: str
    sha256: str
    version: str = __version__
    format: int = FORMAT


def new_about(inventory: str, criteria: Criteria) -> About:
    """Return what an acceptance that begins now is about; nothing is written."""
    started = utc_now()
    stamp = started.replace("-", "").replace(":", "")
    name = f"{stamp}-{secrets.token_hex(3)}"
    return About(name, started, inventory, criteria.source, criteria.sha256)


def read_about(folder: Path) -> About | None:
    """Return which acceptance a folder is of; None where none has begun. Raises UsageError."""
    data = read_json(folder, PurePath(ABOUT), "acceptance") if folder.is_dir() else None
    return None if data is None else _about(data, folder / ABOUT, "begun")


def about_of_record(file: Path) -> About:
    """Return which acceptance a record is of. Raises UsageError.

    The record of a newer version is refused: it may mean more than this one reads.
    """
    try:
        data = json.loads(read_member(file, ABOUT))
    except (ValueError, RecursionError):
        raise UsageError(f"{file}: {ABOUT}: not JSON") from None
    problem = schema_problem(data, "acceptance")
    if problem:
        raise UsageError(f"{file}: {ABOUT}: {problem}")
    return _about(data, file, "made")


def _about(data: Mapping[str, Any], file: Path, done: str) -> About:
    if data["format"] > FORMAT:
        version = line(str(data["version"]), 40)
        raise UsageError(f"{file}: {done} by hwcheck {version}, which is newer than this: use that")
    return About(**data)


def criteria_of(folder: Path, about: About | None, criteria: str, catalogue: Catalogue) -> Criteria:
    """Return the criteria: of a new acceptance those that are named, later the folder's copy.

    ``criteria`` is what ``--criteria`` names, or empty. Raises UsageError, also where the copy was
    changed or others are named.
    """
    if about is None:
        return read_criteria(Path(criteria) if criteria else None, catalogue)
    copy = read_criteria(folder / CRITERIA, catalogue)
    if copy.sha256 != about.sha256:
        raise UsageError(f"{folder / CRITERIA}: changed since the acceptance began; restore it")
    if criteria and read_criteria(Path(criteria), catalogue).sha256 != copy.sha256:
        raise UsageError(
            f"--criteria {criteria}: this acceptance began with others ({about.criteria}); leave "
            "it out, or begin another with --out"
        )
    return copy


def begin(folder: Path, about: About, criteria: Criteria) -> None:
    """Write what an acceptance is about, the criteria first. The caller holds the folder's lock.

    Raises UsageError where one has begun here since the caller looked.
    """
    if (folder / ABOUT).exists():
        raise UsageError(f"{folder}: another call has begun an acceptance here; call it again")
    with writing_to(folder):
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(folder / CRITERIA, criteria.text)
        replace_text(folder / ABOUT, to_json(asdict(about)) + "\n")


def run_folders(folder: Path) -> list[Path]:
    """Return the run folders of an acceptance, the oldest first.

    Raises UsageError for a link to one: the record would have its result, and not its evidence.
    """
    runs = folder / RUNS
    paths = sorted(runs.iterdir()) if runs.is_dir() else []
    for path in paths:
        if path.is_symlink():
            raise UsageError(f"{path}: a symbolic link; put the folder itself there")
    return paths


def record_files(folder: Path) -> dict[str, Path]:
    """Return the files that a record has of an acceptance's folder, by their names in it."""
    files = {name: folder / name for name in (ABOUT, CRITERIA)}
    for path in sorted((folder / RUNS).rglob("*")):
        if path.is_file() and not path.is_symlink() and path.suffix not in DERIVED:
            files[str(path.relative_to(folder))] = path
    return files
