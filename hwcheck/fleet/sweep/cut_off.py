"""Runs of a sweep, found by their folders; those that were cut off are brought to their end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from hwcheck.errors import UsageError
from hwcheck.results.files import writing_to
from hwcheck.results.multi_host import read_multi_host
from hwcheck.results.run_folder import RunFolder, read_meta, read_run


def cut_off_runs(runs: Path, key: str) -> Iterator[Path]:
    """Yield the run folders of an inventory's sweeps that have no end, or are not in the history.

    Nobody else writes them: the caller holds the lock of the inventory.
    """
    for path in _folders(runs):
        whole = (path / "hosts.parquet").is_file()
        if not whole and _sweep_of(path).startswith(f"{key}."):
            yield path


def runs_of_sweep(runs: Path, sweep: str, began: str) -> Iterator[Path]:
    """Yield the run folders of a sweep that began at this time (``2027-01-31T02:30:00Z``)."""
    since = began.replace("-", "").replace(":", "")
    for path in _folders(runs):
        if path.name >= since and _sweep_of(path) == sweep:
            yield path


def _folders(runs: Path) -> Iterator[Path]:
    for path in sorted(runs.iterdir()) if runs.is_dir() else ():
        # Behind a link (``latest``, or one to another disk) a run may be somebody else's.
        if path.name.startswith(".") or path.is_symlink():
            continue
        if (path / "run.json").is_file():
            yield path


def _sweep_of(path: Path) -> str:
    """Return the sweep that a run is part of; of one that cannot be read the history says it."""
    try:
        meta = read_meta(path)
    except UsageError:
        return ""
    return meta.sweep.get("id", "") if meta else ""


def close_run(path: Path) -> bool:
    """Note the end of a run that was killed, with the hosts that it visited, or delete it.

    Says whether it is left: a run that visited none is not. Raises UsageError and DiskError.
    """
    run = read_run(path)
    if run.meta.finished:
        return True
    visited = [record for record in run.records if record.state != "not_visited"]
    together = read_multi_host(path)
    took_part = set(together.hosts) if together and together.runs else set[str]()
    if not visited and not took_part:
        with writing_to(path):
            shutil.rmtree(path)
        return False
    folder = RunFolder(path, run.meta)
    for record in visited:
        folder.write_host(record)
    folder.finish(interrupted=True, hosts={record.host for record in visited} | took_part)
    return True
