"""Files of a run folder: never half written, read only where they are plain files.

A run folder may have come from anywhere.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import Any

from hwcheck.errors import UsageError
from hwcheck.results.schema_check import schema_problem


class DiskError(UsageError):
    """The run folder does not take what is written to it."""


class NotPlainError(OSError):
    """A link is on the way to a file, or what lies there is a FIFO, a device or a folder."""


def replace_text(path: Path, text: str) -> None:
    """Write a text as ``replace_file`` does. Raises OSError."""
    replace_file(path, text.encode("utf-8", "backslashreplace"))


def replace_file(path: Path, content: bytes, *, sync: bool = False, mode: int = 0) -> None:
    """Write a file as a whole, or leave the old one and nothing beside it. Raises OSError.

    A symbolic link in its place, or in that of what is written first, is replaced and not followed:
    a run folder may have come from anywhere. With ``sync`` it is on the disk when this returns;
    with ``mode`` it has that, whatever the umask.
    """
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as stream:
            if mode:
                os.fchmod(stream.fileno(), mode)
            stream.write(content)
            if sync:
                stream.flush()
                os.fsync(stream.fileno())
        os.replace(temporary, path)
        if sync:
            sync_folder(path.parent)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(path: Path) -> None:
    """Have the names in a folder on the disk. Raises OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def writing_to(folder: Path) -> Iterator[None]:
    """Turn what the disk answers into one line that names the run folder. Raises DiskError."""
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what_to_do = "make room there" if full else "see that this user may write there"
        raise DiskError(
            f"cannot write to the run folder: {folder}: {error.strerror}; "
            f"{what_to_do} and run again"
        ) from None


def read_json(folder: Path, name: PurePath, schema: str) -> dict[str, Any] | None:
    """Read a file of a run folder (``nodes/node01.json``) and check it against a schema.

    None where it is not there. Raises UsageError that names the file where it is damaged, and where
    it is no plain file or lies behind a link: a FIFO would keep the reader waiting for ever.
    """
    try:
        with open(open_plain(folder, name), "rb") as stream:
            data = json.load(stream, parse_constant=_refuse_constant)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UsageError(f"damaged run folder: {folder / name}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"damaged run folder: {folder / name}: not JSON ({error})") from None
    problem = schema_problem(data, schema)
    if problem:
        raise UsageError(f"damaged run folder: {folder / name}: {problem}")
    assert isinstance(data, dict)
    return data


def read_plain(folder: Path, name: PurePath, most_bytes: int) -> bytes:
    """Return the begin of a file below a folder. Raises OSError, and NotPlainError."""
    with open(open_plain(folder, name), "rb") as stream:
        return stream.read(most_bytes)


def open_plain(folder: Path, name: PurePath, flags: int = os.O_RDONLY) -> int:
    """Return a descriptor of a file below a folder. Raises OSError, and NotPlainError."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    last = len(name.parts) - 1
    for place, part in enumerate(name.parts):
        # Without O_NONBLOCK a FIFO waits for somebody at its other end.
        how = (flags if place == last else os.O_RDONLY) | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            below = os.open(part, how | os.O_CLOEXEC, 0o666, dir_fd=at)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise NotPlainError(errno.ELOOP, "a symbolic link") from None
            if error.errno == errno.ENXIO:
                raise NotPlainError(errno.ENXIO, "not a file") from None
            raise
        finally:
            os.close(at)
        at = below
    if not stat.S_ISREG(os.fstat(at).st_mode):
        os.close(at)
        raise NotPlainError(errno.EINVAL, "not a file")
    return at


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
