"""Units of a sweep, or its line for cron: put in place, looked for, taken away."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hwcheck.errors import UsageError
from hwcheck.fleet.sweep.schedule import ScheduledSweep, cron, service, timer
from hwcheck.results.files import replace_text
from hwcheck.text import line

SYSTEMCTL_S = 60.0


@dataclass(frozen=True)
class UnitFolder:
    """Where units or cron's files go. ``systemctl`` is empty where systemd does not run."""

    folder: Path
    systemctl: tuple[str, ...] = ()

    @property
    def is_systemd(self) -> bool:
        """Whether units are put there."""
        return bool(self.systemctl)

    def files(self, name: str) -> tuple[Path, ...]:
        """Return the files of a sweep."""
        if self.is_systemd:
            return tuple(self.folder / f"{name}.{kind}" for kind in ("service", "timer"))
        return (self.folder / name,)


def place() -> UnitFolder:
    """Return where the sweeps of this user go: root's are the system's.

    Raises UsageError where neither systemd nor cron is there for this user.
    """
    root = os.geteuid() == 0
    if Path("/run/systemd/system").is_dir() and shutil.which("systemctl"):
        if root:
            return UnitFolder(Path("/etc/systemd/system"), ("systemctl",))
        config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return UnitFolder(Path(config) / "systemd" / "user", ("systemctl", "--user"))
    if root and Path("/etc/cron.d").is_dir():
        return UnitFolder(Path("/etc/cron.d"))
    raise UsageError(
        "neither systemd nor /etc/cron.d is there for this user; have `hwcheck sweep run` started "
        "every night by what is there, or run this as root"
    )


def install(job: ScheduledSweep, where: UnitFolder, *, dry_run: bool = False) -> tuple[str, ...]:
    """Put the files of a sweep in place and start its timer; return what was done, in lines.

    What is as it should be stays untouched; with ``dry_run`` everything does, and the lines say
    what would be done. Raises UsageError; where the timer cannot be started no new file is left.
    """
    if any("\n" in word for word in (*job.words, job.folder, *job.writable)):
        raise UsageError("a path or pattern has a line break in it; no unit can name it")
    texts = (service(job), timer(job)) if where.is_systemd else (cron(job),)
    of_file = dict(zip(where.files(job.name), texts, strict=True))
    stale = {file: text for file, text in of_file.items() if _read(file) != text}
    unit = f"{job.name}.timer"
    starts = where.is_systemd and (bool(stale) or not _runs(where, unit))
    would = "would be " if dry_run else ""
    lines = [f"{each}: {would + 'written' if each in stale else 'as it is'}" for each in of_file]
    if where.is_systemd:
        lines.append(f"{unit}: {would + 'started' if starts else 'runs'}")
    if not dry_run:
        _put(stale, where)
    if starts and not dry_run:
        try:
            for words in (("daemon-reload",), ("enable", unit), ("restart", unit)):
                _systemctl(where, *words)
        except UsageError:
            _remove(tuple(stale))
            raise
    return tuple(lines)


def _put(texts: Mapping[Path, str], where: UnitFolder) -> None:
    try:
        where.folder.mkdir(parents=True, exist_ok=True)
        for file, text in texts.items():
            replace_text(file, text)
    except OSError as error:
        _remove(tuple(texts))
        raise UsageError(f"cannot write {where.folder}: {error.strerror}") from None


def remove(name: str, where: UnitFolder, *, dry_run: bool = False) -> tuple[Path, ...]:
    """Stop the timer of a sweep, take its files away and return them. Raises UsageError.

    A sweep that is under way goes on to its end. With ``dry_run`` nothing is touched.
    """
    files = tuple(file for file in where.files(name) if file.exists())
    if not files or dry_run:
        return files
    if where.is_systemd:
        _systemctl(where, "disable", "--now", f"{name}.timer")
    try:
        for file in files:
            file.unlink()
    except OSError as error:
        raise UsageError(f"cannot remove {error.filename}: {error.strerror}") from None
    if where.is_systemd:
        _systemctl(where, "daemon-reload")
    return files


def _read(file: Path) -> str | None:
    """Return what is in a file; None where it is not there, or not to be read."""
    try:
        return file.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


def _runs(where: UnitFolder, unit: str) -> bool:
    """Whether a timer is started, and will be at the next boot."""
    try:
        for question in ("is-enabled", "is-active"):
            _systemctl(where, question, unit)
    except UsageError:
        return False
    return True


def _systemctl(where: UnitFolder, *words: str) -> None:
    try:
        done = subprocess.run(
            [*where.systemctl, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SYSTEMCTL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"{' '.join((*where.systemctl, *words))}: {line(str(error))}") from None
    if done.returncode != 0:
        why = line(done.stderr) or f"exit code {done.returncode}"
        raise UsageError(f"{' '.join((*where.systemctl, *words))}: {why}")


def _remove(files: tuple[Path, ...]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
