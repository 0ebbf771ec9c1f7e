"""The run folder: write, read, validate.

``runs/<UTC time>-<short id>/`` holds ``run.json`` (what was asked), ``nodes/<host>.json`` (what
each node answered), ``nodes/<host>.log`` (everything else that it wrote) and ``series/<host>.json``
(its GPUs over time, at work). What was measured a second time lies likewise under ``again/``. That
is enough to judge and render again with no node.
``docs/result-format.md`` has the formats.
"""

from __future__ import annotations

import json
import re
import secrets
import shutil
import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from pathlib import Path, PurePath
from typing import Any, Generic, TypeVar

from hwcheck import __version__
from hwcheck.contract import reasons
from hwcheck.contract.reasons import NONE, Reason
from hwcheck.contract.wire import Report, Timing, to_dict, to_json
from hwcheck.errors import UsageError
from hwcheck.results import series
from hwcheck.results.files import read_json, replace_text, writing_to
from hwcheck.results.former import completed
from hwcheck.results.options import ASKED
from hwcheck.results.schema_check import schema_problem
from hwcheck.results.series import VisitSeries
from hwcheck.results.site_limits import SiteLimits
from hwcheck.results.waivers import Waiver

FORMAT = 2
"""Of ``run.json``. In 1 what was asked stood beside the rest, and a reason was a text alone."""

HOST_STATES = ("reported", "partial", "unreachable", "invalid", "lost", "not_visited")
"""reported: a whole report. partial: some results, then the connection or the time ran out.
unreachable: no visit. invalid: an answer that cannot be trusted. lost: a visit without a result.
not_visited: the run was stopped before its turn."""

SECOND_VISITS = "again"
"""The folder of second visits in a run folder."""

SITE = "site"
"""The folder of the site's files in a run folder."""

GOLDEN = "golden.json"
"""The hosts of an acceptance that a run's hosts are held against."""

UNDER_WAY = Reason(reasons.UNDER_WAY, "the visit is under way")
"""The reason of a record that is written before its visit ends."""

CUT_OFF = Reason(
    reasons.CUT_OFF, "under way when the run itself ended (killed, or this machine went down)"
)
"""What becomes of that reason in a run that never came to its end."""

INTERRUPTED = Reason(reasons.INTERRUPTED, "interrupted")
"""The reason of a visit that was ended with its run."""

GIVEN_UP = "given up, for the scheduler wants the node"

OUT_OF_TIME = Reason(reasons.OUT_OF_TIME, "given up, for the time of the sweep is over")
"""The reason of a visit that was ended with the budget of its sweep."""

ENDED_BY_US = (
    reasons.GIVEN_UP,
    reasons.OUT_OF_TIME,
    reasons.INTERRUPTED,
    reasons.CUT_OFF,
)
"""Codes of a visit that hwcheck ended, and nothing of the host's."""


@dataclass(frozen=True)
class HostPlan:
    """One host of the plan: its name, the address it is reached at, and what is expected of it.

    ``limits`` are those that the site set for it (``results.site_limits``), ``waivers`` what it
    knows of and bears for a time (``results.waivers``), ``rack`` is where it stands.
    """

    name: str
    address: str
    expect: Mapping[str, Any] = field(default_factory=dict)
    limits: SiteLimits = field(default_factory=dict)
    waivers: tuple[Waiver, ...] = ()
    rack: str = ""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HostPlan:
        """Rebuild from a host of the (schema-checked) ``run.json``."""
        waivers = tuple(Waiver(**waiver) for waiver in data.get("waivers", ()))
        return cls(**{**data, "waivers": waivers})


@dataclass(frozen=True)
class RunMeta:
    """What was asked. Times are UTC, ISO 8601; ``finished`` is empty while the run goes on.

    ``site`` are the files of the site's folder that were in use, ``checks/fans.py``, each with its
    SHA-256; they lie in ``site/`` of the run folder. ``sweep`` has the ``id`` and the ``level`` of
    the sweep that the run is part of, and is empty for one by hand; ``acceptance`` likewise the
    ``id`` and the ``stage``. ``options`` are all that was asked, as ``hwcheck.results.options`` has
    them; runs of former versions have none.
    """

    id: str
    started: str
    checks: tuple[str, ...]
    hosts: tuple[HostPlan, ...]
    profile: str = "quick"
    inventory: str = ""
    limit: str = ""
    payload_sha256: str = ""
    timing: Timing = field(default_factory=Timing)
    site: Mapping[str, str] = field(default_factory=dict)
    sweep: Mapping[str, str] = field(default_factory=dict)
    acceptance: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    finished: str = ""
    interrupted: bool = False
    version: str = __version__
    format: int = FORMAT

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunMeta:
        """Rebuild from the (schema-checked) content of ``run.json``."""
        rest = {**_asked(data), **data}
        rest["checks"] = tuple(rest["checks"])
        rest["hosts"] = tuple(map(HostPlan.from_dict, rest["hosts"]))
        rest["timing"] = Timing.from_dict(rest.get("timing", {}))
        return cls(**rest)

    def to_record(self) -> dict[str, Any]:
        """Return the content of ``run.json``, which says each thing once."""
        data = to_dict(self)
        left_out = _asked(data) if self.options else ("options",)
        return {name: value for name, value in data.items() if name not in left_out}


def _asked(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the ``options`` in a ``run.json`` say of ``ASKED``."""
    options = data.get("options", {})
    return {name: options[name] for name in ASKED if name in options}


def given_up(scheduler_says: str) -> Reason:
    """Return the reason of a visit that was ended for a job, with what the scheduler says."""
    return Reason(reasons.GIVEN_UP, f"{GIVEN_UP}: {scheduler_says}")


R = TypeVar("R")


@dataclass(frozen=True)
class _Host(Generic[R]):
    """What became of one host. ``report`` holds the results that arrived, whole or not."""

    host: str
    state: str
    reason: Reason = NONE
    phase: str = ""
    started: str = ""
    duration_s: float = 0.0
    report: R | None = None

    @property
    def given_up(self) -> bool:
        """Whether the visit was ended since the scheduler wants the node."""
        return self.reason.code == reasons.GIVEN_UP

    @property
    def ended_by_us(self) -> bool:
        """Whether it was hwcheck, and nothing of the host's, that ended the visit."""
        return self.reason.code in ENDED_BY_US


class HostAnswer(_Host[Mapping[str, Any]]):
    """A host on its way to the disk: its report is JSON that has been checked, and no more."""


class HostRecord(_Host[Report]):
    """A host as read back."""

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HostRecord:
        """Rebuild from the (schema-checked) content of ``nodes/<host>.json``."""
        rest = dict(data)
        rest["reason"] = Reason.from_json(rest.get("reason", ""))
        if rest.get("report") is not None:
            rest["report"] = completed(Report.from_dict(rest["report"]))
        return cls(**rest)


@dataclass(frozen=True)
class Run:
    """A run as read back: the plan and one record for each of its hosts, in the plan's order.

    ``second_visits`` are those of the hosts that had one; ``golden`` are hosts of an acceptance
    that like ones are held against.
    """

    path: Path
    meta: RunMeta
    records: tuple[HostRecord, ...]
    second_visits: Mapping[str, HostRecord] = field(default_factory=dict)
    golden: tuple[HostRecord, ...] = ()


def utc_now() -> str:
    """Return the time now as ``2026-01-31T12:00:00Z``."""
    return datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


SHORT_ID = re.compile("[0-9a-f]{6}")
MOST_IDS = 0xFFFFFF


def folder_name(started: str, out: Path) -> str:
    """Return a new name for a folder of a command that began at this time of ``utc_now``.

    Names sort as the commands began: it comes after those of the same second under ``out``.
    """
    stamp = started.replace("-", "").replace(":", "")
    names = (path.name.removeprefix(f"{stamp}-") for path in out.glob(f"{stamp}-*"))
    last = max((int(name, 16) for name in names if SHORT_ID.fullmatch(name)), default=0)
    return f"{stamp}-{last + 1 + secrets.randbelow(max(1, (MOST_IDS - last) // 2)):06x}"


class RunFolder:
    """Writes one run. A file is replaced as a whole, so a reader never sees half of one."""

    def __init__(self, path: Path, meta: RunMeta) -> None:
        self.path = path
        self.meta = meta
        self._log_lock = threading.Lock()

    @classmethod
    def create(cls, out: Path, meta: RunMeta) -> RunFolder:
        """Make a new folder under ``out`` and write ``run.json``.

        ``meta.id`` and ``meta.started`` are set here. Raises UsageError when ``out`` cannot be
        written to, or when what was asked could not be read back.
        """
        started = utc_now()
        meta = replace(meta, id=folder_name(started, out), started=started)
        problem = schema_problem(meta.to_record(), "run")
        if problem:  # found now, and not when every host has been loaded
            raise UsageError(f"this run cannot be recorded: {problem}")
        folder = cls(out / meta.id, meta)
        made = [parent for parent in folder.path.parents if not parent.exists()]
        try:
            (folder.path / "nodes").mkdir(parents=True)
            folder._replace_meta()
        except OSError as error:
            shutil.rmtree(folder.path, ignore_errors=True)
            for parent in made:
                if parent.is_dir() and not any(parent.iterdir()):
                    parent.rmdir()
            raise UsageError(
                f"cannot create the run folder: {out}: {error.strerror}; name another with --out"
            ) from None
        return folder

    def second_visits(self) -> RunFolder:
        """Make the folder of the run's second visits. Raises DiskError."""
        folder = RunFolder(self.path / SECOND_VISITS, self.meta)
        with writing_to(self.path):
            (folder.path / "nodes").mkdir(parents=True)
        return folder

    def write_host(self, answer: HostAnswer | HostRecord) -> None:
        """Write ``nodes/<host>.json``. Raises DiskError."""
        with writing_to(self.path):
            replace_text(self.path / "nodes" / f"{answer.host}.json", to_json(answer) + "\n")

    def write_series(self, host: str, data: Mapping[str, Any]) -> None:
        """Write ``series/<host>.json``, as the node sent it. Raises DiskError."""
        file = self.path / _series_file(host)
        with writing_to(self.path):
            file.parent.mkdir(exist_ok=True)
            replace_text(file, to_json(data) + "\n")

    def write_golden(self, golden: Sequence[HostRecord]) -> None:
        """Write ``golden.json``, where there are golden hosts. Raises DiskError."""
        if golden:
            with writing_to(self.path):
                replace_text(self.path / GOLDEN, to_json({"hosts": golden}) + "\n")

    def write_site(self, files: Mapping[str, bytes]) -> None:
        """Keep the files of the site, where it has any. Raises DiskError."""
        if files:
            with writing_to(self.path):
                save_site(files, self.path / SITE)

    def append_log(self, host: str, text: str) -> None:
        """Add to ``nodes/<host>.log``. Raises DiskError."""
        log = self.path / "nodes" / f"{host}.log"
        with (
            writing_to(self.path),
            self._log_lock,
            log.open("a", encoding="utf-8", errors="replace") as stream,
        ):
            stream.write(text)

    def finish(self, *, interrupted: bool, hosts: Collection[str] | None = None) -> None:
        """Close the run: note its end in ``run.json``. Raises DiskError.

        With ``hosts`` the run was about these alone: it had no time, or no leave, for the others.
        """
        kept = self.meta.hosts if hosts is None else self._of(hosts)
        self.meta = replace(self.meta, hosts=kept, finished=utc_now(), interrupted=interrupted)
        with writing_to(self.path):
            self._replace_meta()

    def _of(self, hosts: Collection[str]) -> tuple[HostPlan, ...]:
        return tuple(host for host in self.meta.hosts if host.name in hosts)

    def _replace_meta(self) -> None:
        text = json.dumps(self.meta.to_record(), indent=1, allow_nan=False) + "\n"
        replace_text(self.path / "run.json", text)


def save_site(files: Mapping[str, bytes], folder: Path) -> None:
    """Write files, ``checks/fans.py``, so that nobody else may write to them. Raises OSError."""
    kinds = sorted({name.partition("/")[0] for name in files})
    for path in (folder, *(folder / kind for kind in kinds)):
        path.mkdir()
        path.chmod(0o755)
    for name, data in files.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o644)


def write_rendered(path: Path, files: Mapping[str, str], anew: str = "") -> None:
    """Write rendered files (``report.html``) into a run folder. Raises DiskError.

    The folder ``anew`` in it holds nothing else afterwards: what an earlier rendering left there
    must not be taken for this one's. A run folder may have come from anywhere, so nothing is
    written to or removed through a symbolic link in it.
    """
    folders = {parent for name in files for parent in PurePath(name).parents} | {PurePath(anew)}
    with writing_to(path):
        for folder in sorted(folders - {PurePath()}):  # the outer ones come first
            if (path / folder).is_symlink():
                (path / folder).unlink()
        for name, text in files.items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            replace_text(path / name, text)
        kept = {path / name for name in files}
        stale = sorted((path / anew).rglob("*"), reverse=True) if anew else []
        for old in stale:
            if old.is_dir() and not old.is_symlink():
                if not any(old.iterdir()):
                    old.rmdir()
            elif old not in kept:
                old.unlink()


def read_meta(path: Path) -> RunMeta | None:
    """Read the ``run.json`` of a run folder; None where there is none. Raises UsageError."""
    data = read_json(path, PurePath("run.json"), "run")
    return RunMeta.from_dict(data) if data else None


def read_run(path: Path, only: Collection[str] | None = None) -> Run:
    """Read a run folder, or ``only`` some of its hosts.

    A host without a file gets a ``not_visited`` record where the run was stopped, or visited none.
    In a run without an end, hosts that were under way say so. Raises UsageError that names the file
    when one is missing, damaged or does not match its schema.
    """
    meta = read_meta(path) if path.is_dir() else None
    if meta is None:
        raise UsageError(f"not a run folder: {path / 'run.json'}: No such file or directory")
    if only is not None:
        meta = replace(meta, hosts=tuple(host for host in meta.hosts if host.name in only))
    records, second_visits = [], {}
    for host in meta.hosts:
        record = _read_host(path, host.name, meta)
        if record is None:
            reason = "the run was stopped before its turn"
            if meta.checks and meta.finished and not meta.interrupted:
                raise UsageError(f"damaged run folder: {path / _host_file(host.name)}: missing")
            if not meta.finished:
                reason = "the run itself ended before its turn, or as its visit began"
            record = HostRecord(host.name, "not_visited", Reason(reasons.VISIT_ENDED, reason))
        records.append(record)
        second_visit = _read_host(path, host.name, meta, SECOND_VISITS)
        if second_visit is not None:
            second_visits[host.name] = second_visit
    return Run(path, meta, tuple(records), second_visits, _read_golden(path))


def _read_golden(path: Path) -> tuple[HostRecord, ...]:
    data = read_json(path, PurePath(GOLDEN), "golden")
    return tuple(map(HostRecord.from_dict, data["hosts"])) if data else ()


def _read_host(path: Path, host: str, meta: RunMeta, part: str = "") -> HostRecord | None:
    file = part / _host_file(host)
    data = read_json(path, file, "host")
    if data is None:
        return None
    record = HostRecord.from_dict(data)
    if record.host != host:
        raise UsageError(f"damaged run folder: {path / file}: it is about {record.host!r}")
    cut_off = record.reason.code == reasons.UNDER_WAY and not meta.finished
    return replace(record, reason=CUT_OFF) if cut_off else record


def _host_file(host: str) -> PurePath:
    return PurePath("nodes", f"{host}.json")


def read_series(path: Path, host: str) -> VisitSeries | None:
    """Read a host's load from a run folder; None where it had none. Raises UsageError."""
    data = read_json(path, _series_file(host), "series")
    return None if data is None else series.unpack(data)


def _series_file(host: str) -> PurePath:
    return PurePath("series", f"{host}.json")
