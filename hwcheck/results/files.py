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
from typing import Any, BinaryIO

from hwcheck.errors import UsageError
from hwcheck.results.schema_check import schema_problem


class DiskError(UsageError):
    """The run folder does not take what is written to it."""


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
        with _open_plain(folder, name) as stream:
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


def _open_plain(folder: Path, name: PurePath) -> BinaryIO:
    """Open a file below a folder. Raises OSError where a link is on the way, or it is no file."""
    at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for part in name.parts:
        # Without O_NONBLOCK a FIFO waits for somebody who writes into it.
        try:
            below = os.open(part, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise OSError(errno.ELOOP, "a symbolic link") from None
            raise
        finally:
            os.close(at)
        at = below
    if not stat.S_ISREG(os.fstat(at).st_mode):
        os.close(at)
        raise OSError(errno.EINVAL, "not a file")
    return open(at, "rb")


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")
