"""A site's folder: where it is, who may write to it, and what its files hold.

The files are run, so they are read once, from a folder that nobody else may write to; from then on
only what was read counts. Whoever may change a file between our look at its folder and our reading
is this user or root.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hwcheck.errors import UsageError

NAME = "hwcheck"
"""The folder beside an inventory."""
SUFFIXES = {"checks": ".py", "models": ".yml", "rules": ".py", "templates": ".j2"}
"""The folders of what a site may add, each with how its files end."""
CASES = "tests"
"""The folder of the cases; it stays here (``hwcheck.testing.cases``)."""
STEM = re.compile(r"[a-z][a-z0-9_]{0,99}")
MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Site:
    """A site's folder as it was read: the content of each file by its name, ``checks/fans.py``."""

    path: Path
    files: Mapping[str, bytes] = field(repr=False)

    def of(self, kind: str) -> dict[str, bytes]:
        """Return the files of a kind (``SUFFIXES``), by the names that they have in it."""
        return {
            name.partition("/")[2]: data
            for name, data in self.files.items()
            if name.startswith(f"{kind}/")
        }

    @property
    def hashes(self) -> dict[str, str]:
        """The SHA-256 of each file."""
        return {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}


def beside(inventory: str) -> Path | None:
    """Return the site's folder beside an inventory file or folder; None where there is none.

    An inventory that is not there by its name, since hwcheck brings it, has none beside it.
    A folder of this name that holds nothing that a site may add is not a site's: such as a checkout
    of hwcheck, or its package.
    """
    if "," in inventory or not inventory.strip() or not os.path.exists(inventory):
        return None
    folder = Path(os.path.abspath(inventory)).parent / NAME
    return folder if _is_site(folder) else None


def _is_site(folder: Path) -> bool:
    if (folder / "__init__.py").exists():
        return False
    return any((folder / kind).is_dir() for kind in SUFFIXES)


def read(folder: Path) -> Site:
    """Read a site's folder. Raises UsageError.

    That is where others may write to it or to anything of it, where something leads out of it, and
    where something lies in it that would be left unread.
    """
    if not folder.is_dir():
        raise UsageError(f"--site {folder}: no such folder")
    folder = folder.resolve()
    if not _is_site(folder):
        kinds = ", ".join(SUFFIXES)
        raise UsageError(f"--site {folder}: not a site's folder: it holds none of {kinds}")
    files = {}
    for name in _entries(folder):
        if name in SUFFIXES:
            for file in _entries(folder / name):
                files[f"{name}/{file}"] = _content(folder / name / file, SUFFIXES[name])
        elif name != CASES and not name.startswith("README"):
            holds = ", ".join((*SUFFIXES, CASES))
            raise UsageError(f"{folder / name}: it is none of {holds} and README; move it away")
    return Site(folder, files)


def _entries(folder: Path) -> Iterator[str]:
    """Yield the names in a folder of which nobody else may change one."""
    _refuse_others(folder, folder.lstat(), stat.S_ISDIR)
    for name in sorted(os.listdir(folder)):
        if not name.startswith(".") and name != "__pycache__":
            yield name


def _content(path: Path, suffix: str) -> bytes:
    stem_is_word = STEM.fullmatch(path.stem) or suffix == ".j2"
    if path.suffix != suffix or not stem_is_word:
        raise UsageError(
            f"{path}: a file here is named like fan_speed{suffix}; rename it or move it"
        )
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        link = path.is_symlink()
        what = "a symbolic link; put the file itself there" if link else error.strerror
        raise UsageError(f"{path}: {what}") from None
    with open(descriptor, "rb") as stream:
        _refuse_others(path, os.fstat(descriptor), stat.S_ISREG)
        data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise UsageError(f"{path}: more than {MOST_BYTES >> 20} MiB")
    return data


def _refuse_others(path: Path, status: os.stat_result, is_kind: object) -> None:
    """Refuse what another user may write to, or what is not of its kind. Raises UsageError."""
    assert callable(is_kind)
    if stat.S_ISLNK(status.st_mode):
        raise UsageError(f"{path}: a symbolic link; put the folder itself there")
    if not is_kind(status.st_mode):
        what = "folder" if is_kind is stat.S_ISDIR else "file"
        raise UsageError(f"{path}: not a {what}")
    if status.st_uid not in (os.geteuid(), 0):
        raise UsageError(
            f"{path}: it belongs to user {status.st_uid}, whose code would be run; "
            f"look at it, then chown -R {os.geteuid()} it"
        )
    if status.st_mode & 0o022:
        raise UsageError(f"{path}: others may write to it, and it is run; chmod -R go-w {path}")
