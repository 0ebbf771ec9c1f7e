"""Units of a sweep, or its line for cron: put in place, looked for, taken away."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hwcheck.errors import UsageError
from hwcheck.results.files import replace_text
from hwcheck.sweep.schedule import Job, cron, service, timer
from hwcheck.text import line

SYSTEMCTL_S = 60.0


@dataclass(frozen=True)
class Place:
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


def place() -> Place:
    """Return where the sweeps of this user go: root's are the system's.

    Raises UsageError where neither systemd nor cron is there for this user.
    """
    root = os.geteuid() == 0
    if Path("/run/systemd/system").is_dir() and shutil.which("systemctl"):
        if root:
            return Place(Path("/etc/systemd/system"), ("systemctl",))
        config = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
        return Place(Path(config) / "systemd" / "user", ("systemctl", "--user"))
    if root and Path("/etc/cron.d").is_dir():
        return Place(Path("/etc/cron.d"))
    raise UsageError(
        "neither systemd nor /etc/cron.d is there for this user; have `hwcheck sweep run` started "
        "every night by what is there, or run this as root"
    )


def install(job: Job, where: Place) -> tuple[Path, ...]:
    """Put the files of a sweep in place, start its timer, and return them. Raises UsageError.

    Files of the same sweep are replaced. Where the timer cannot be started none is left.
    """
    if any("\n" in word for word in (*job.words, job.folder, *job.writable)):
        raise UsageError("a path or pattern has a line break in it; no unit can name it")
    files = where.files(job.name)
    texts = (service(job), timer(job)) if where.is_systemd else (cron(job),)
    try:
        where.folder.mkdir(parents=True, exist_ok=True)
        for file, text in zip(files, texts, strict=True):
            replace_text(file, text)
    except OSError as error:
        _remove(files)
        raise UsageError(f"cannot write {where.folder}: {error.strerror}") from None
    if where.is_systemd:
        try:
            _systemctl(where, "daemon-reload")
            _systemctl(where, "enable", "--now", files[1].name)
        except UsageError:
            _remove(files)
            raise
    return files


def installed(name: str, where: Place) -> bool:
    """Whether a sweep is in place."""
    return all(file.exists() for file in where.files(name))


def remove(name: str, where: Place) -> tuple[Path, ...]:
    """Stop the timer of a sweep, take its files away and return them. Raises UsageError.

    A sweep that is under way goes on to its end.
    """
    files = tuple(file for file in where.files(name) if file.exists())
    if not files:
        return ()
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


def _systemctl(where: Place, *words: str) -> None:
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
