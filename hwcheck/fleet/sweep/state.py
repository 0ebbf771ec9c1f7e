"""What a sweep keeps beside the run folders: one small file and a lock, in ``.sweep/`` of the runs.

Without the file a sweep is as good: it only does not know who waits, and since when.
"""

from __future__ import annotations

import fcntl
import getpass
import hashlib
import json
import os
import re
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any

from hwcheck.errors import UsageError
from hwcheck.results.files import open_plain, read_json, replace_file, writing_to
from hwcheck.results.run_folder import utc_now
from hwcheck.text import line

FOLDER = ".sweep"
FORMAT = 1
LOCK_WAIT_S = 1.0
"""``sweep status`` holds the lock for a moment while it looks."""
PATIENCE_S = 3600.0
"""For a sweep beside jobs, which is over within minutes: a night must not be lost to it."""
LOOK_S = 0.05


@dataclass(frozen=True)
class UnderWay:
    """A sweep that has begun: its id, and the time (UTC) at which its budget ends.

    ``beside_jobs``: it loads nothing, and is none of a night.
    """

    id: str
    began: str
    ends: str
    beside_jobs: bool = False


@dataclass(frozen=True)
class Finished:
    """How the last sweep of a level ended: when (UTC), and how many hosts it measured of its due.

    ``late`` are the hosts that were not measured for too long, ``late_links`` those whose links to
    others were not.
    """

    at: str
    due: int
    measured: int
    exit_code: int
    late: tuple[str, ...] = ()
    late_links: tuple[str, ...] = ()


@dataclass(frozen=True)
class SweepState:
    """Times are UTC, ``2026-01-31T12:00:00Z``.

    ``finished`` is by level, ``waiting`` who was at work when it was its turn and since when,
    ``away`` who was drained or down in the last sweep, and ``first_seen`` since when each host of
    the inventory is in it. ``undrained`` are hosts that failed and could not be drained, each with
    its evidence.
    """

    under_way: UnderWay | None = None
    finished: Mapping[str, Finished] = field(default_factory=dict)
    waiting: Mapping[str, str] = field(default_factory=dict)
    away: Mapping[str, str] = field(default_factory=dict)
    first_seen: Mapping[str, str] = field(default_factory=dict)
    undrained: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> SweepState:
        """Rebuild from the (schema-checked) content of the file."""
        rest = dict(data)
        if rest.get("under_way"):
            rest["under_way"] = UnderWay(**rest["under_way"])
        rest["finished"] = {
            level: Finished(
                **{
                    **each,
                    "late": tuple(each["late"]),
                    "late_links": tuple(each.get("late_links", ())),
                }
            )
            for level, each in rest["finished"].items()
        }
        return cls(**rest)


def key_of(source: str) -> str:
    """Return the name of an inventory's files: readable, and another for each inventory."""
    path = Path(source)
    name = str(path.resolve()) if path.exists() else source
    stem = re.sub(r"[^A-Za-z0-9]+", "-", path.stem[:40]).strip("-") or "hosts"
    return f"{stem}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def parsed(text: str) -> datetime:
    """Return a time of a state or of a run, UTC and naive. Raises ValueError."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ")  # noqa: DTZ007 - the Z says UTC


def as_text(at: datetime) -> str:
    """Return a time (UTC, naive) as ``parsed`` takes it."""
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def now_utc() -> datetime:
    """Return the time now, UTC and naive, in whole seconds."""
    return datetime.now(timezone.utc).replace(tzinfo=None, microsecond=0)


def read_state(runs: Path, key: str) -> tuple[SweepState, str]:
    """Return the state of an inventory's sweeps, and why it could not be read or an empty text.

    A file that is damaged costs who waits, and no sweep.
    """
    folder = runs / FOLDER
    try:
        data = read_json(folder, PurePath(f"{key}.json"), "sweep") if folder.is_dir() else None
        state = SweepState.from_dict(data) if data else SweepState()
        for text in _times(state):
            parsed(text)
    except (UsageError, ValueError) as error:
        why = str(error).removeprefix("damaged run folder: ")
        return SweepState(), f"{why}; begun anew: who was at work last time is not known"
    return state, ""


def write_state(runs: Path, key: str, state: SweepState) -> None:
    """Write the state as a whole, to the disk itself. Raises DiskError."""
    file = runs / FOLDER / f"{key}.json"
    with writing_to(runs):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file, (json.dumps(asdict(state), indent=1) + "\n").encode(), sync=True)


def _times(state: SweepState) -> list[str]:
    times = [*state.waiting.values(), *state.first_seen.values()]
    times += [each.at for each in state.finished.values()]
    return times + ([state.under_way.began, state.under_way.ends] if state.under_way else [])


class Lock:
    """A context manager: one sweep of an inventory, or one acceptance, at a time.

    The kernel gives the lock up with the process, however that ends. Raises UsageError that names
    the holder; one whose ``what`` begins with ``waits_for`` is waited for.
    """

    def __init__(
        self, runs: Path, key: str, source: str, what: str, waits_for: str | None = None
    ) -> None:
        self._file = runs / FOLDER / f"{key}.lock"
        self._runs, self._source, self._what = runs, source, what
        self._waits_for = waits_for
        self._descriptor = -1

    def __enter__(self) -> Lock:
        with writing_to(self._runs):
            self._file.parent.mkdir(parents=True, exist_ok=True)
            name = PurePath(FOLDER, self._file.name)
            self._descriptor = open_plain(self._runs, name, os.O_RDWR | os.O_CREAT)
            begun = time.monotonic()
            while not _locked(self._descriptor, fcntl.LOCK_EX):
                held_by = _holder(self._descriptor)
                patient = self._waits_for is not None and held_by.startswith(self._waits_for)
                if time.monotonic() - begun > (PATIENCE_S if patient else LOCK_WAIT_S):
                    os.close(self._descriptor)
                    raise UsageError(
                        f"{self._source}: one at a time: {held_by}; "
                        "let it end, or stop it with SIGTERM"
                    )
                time.sleep(LOOK_S)
            os.ftruncate(self._descriptor, 0)
            who = f"{getpass.getuser()} on {socket.gethostname()}"
            text = f"{self._what}, since {utc_now()}, process {os.getpid()} of {who}\n"
            os.write(self._descriptor, text.encode())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        os.close(self._descriptor)


def holder(runs: Path, key: str) -> str:
    """Return who holds the lock of an inventory, or an empty text."""
    try:
        descriptor = open_plain(runs, PurePath(FOLDER, f"{key}.lock"))
    except OSError:
        return ""
    try:
        return "" if _locked(descriptor, fcntl.LOCK_SH) else _holder(descriptor)
    finally:
        os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(descriptor: int) -> str:
    text = os.pread(descriptor, 500, 0).decode("utf-8", "replace")
    return line(text) or "it has not yet said who it is"
