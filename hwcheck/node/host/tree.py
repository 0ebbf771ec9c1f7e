"""A node's files below a root folder, which is ``/`` on a real node."""

from __future__ import annotations

import os
from typing import List, Optional

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.reasons import NOT_MEASURED, of_errno

READ_LIMIT_BYTES = 1 << 20


class Tree:
    """Reads files and folders below a root. What cannot be read is not there: never an error."""

    def __init__(self, root: str = "/") -> None:
        self._root = os.path.realpath(root)

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path.lstrip("/"))

    def _exists(self, path: str) -> bool:
        return os.path.exists(self._path(path))

    def _list(self, path: str) -> List[str]:
        try:
            return sorted(os.listdir(self._path(path)))
        except OSError:
            return []

    def _text(self, path: str) -> Optional[str]:
        """Return a file's text, or None where it cannot be read."""
        data = contents(self._path(path))
        return None if data is None else data.decode("utf-8", "replace")

    def _read(self, path: str) -> str:
        """Return a file's text, or an empty text where it cannot be read."""
        return self._text(path) or ""

    def _unread(self, path: str, words: str) -> CouldNotMeasure:
        """Return that a file gives nothing, in these words, with the code of what refuses it."""
        return CouldNotMeasure(words, refusal(self._path(path)))

    def _link(self, path: str) -> str:
        """Return where a link points, as it says; empty where it cannot be read."""
        try:
            return os.readlink(self._path(path))
        except OSError:
            return ""

    def _resolve(self, path: str) -> str:
        """Follow the links of a path; empty where they lead out of the root."""
        real = os.path.realpath(self._path(path))
        return real if os.path.commonpath([self._root, real]) == self._root else ""


def refusal(path: str) -> str:
    """Return the code of why a file cannot be read, or ``NOT_MEASURED`` of one that can.

    It is asked for where a file gave nothing: a node has thousands of them, and few that matter.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return of_errno(error.errno)
    try:
        os.read(descriptor, 1)
    except OSError as error:
        return of_errno(error.errno)
    finally:
        os.close(descriptor)
    return NOT_MEASURED


def contents(path: str, limit_bytes: int = READ_LIMIT_BYTES) -> Optional[bytes]:
    """Return at most ``limit_bytes`` of a file, or None where it cannot be read.

    Processes end and files are root's: both mean that there is nothing for us. A FIFO is not
    waited for.
    """
    data = b""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        while len(data) < limit_bytes:
            more = os.read(descriptor, limit_bytes - len(data))
            if not more:
                break
            data += more
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return data
