"""Files that a reader never sees half of, and what the operator hears when a disk is full."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hwcheck.errors import UsageError


class DiskError(UsageError):
    """The run folder does not take what is written to it."""


def replace_text(path: Path, text: str) -> None:
    """Write a file as a whole, or leave the old one and nothing beside it. Raises OSError.

    A symbolic link in its place, or in that of what is written first, is replaced and not followed:
    a run folder may have come from anywhere.
    """
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as stream:
            stream.write(text.encode("utf-8", "backslashreplace"))
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


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
