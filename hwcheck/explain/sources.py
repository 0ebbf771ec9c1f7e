"""The files that are to be explained: found, and read as text whatever is in them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from hwcheck.errors import UsageError
from hwcheck.text import binary_size, count

MOST_BYTES = 32 * 1024 * 1024
MOST_FILES = 2000
LOOK_BYTES = 64 * 1024
BINARY_SHARE = 0.1
"""From this share of control characters on, what is read is no text."""

_CONTROLS = bytes(set(range(32)) - {9, 10, 13, 27})
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


@dataclass(frozen=True)
class LogFile:
    """A file: its name as it was given, its text, and what was done to read it.

    ``problem`` says why there is no text.
    """

    name: str
    text: str = ""
    notes: tuple[str, ...] = ()
    problem: str = ""


def files(path: Path) -> Iterator[LogFile]:
    """Yield the file, or those of the folder and its folders by name, hidden ones left out.

    Raises UsageError where there is none.
    """
    if not path.is_dir():
        yield source(path)
        return
    try:
        os.listdir(path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}; see that this user may read it") from None
    files = list(islice(_below(path), MOST_FILES + 1))
    if not files:
        raise UsageError(f"{path} holds no file; name a log, or a folder with logs")
    yield from (source(entry, must=False) for entry in files[:MOST_FILES])
    if len(files) > MOST_FILES:
        problem = f"more files left out: at most {MOST_FILES} are read at once"
        yield LogFile(str(path), problem=problem)


def _below(path: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            entry = Path(folder, name)
            if not name.startswith(".") and entry.is_file():
                yield entry


def source(path: Path, *, must: bool = True) -> LogFile:
    """Read one file. Raises UsageError where it cannot be read and ``must`` be."""
    try:
        if not path.is_file() and path.exists():
            raise UsageError(f"{path} is not a file; name a log")
        with path.open("rb") as stream:
            data = stream.read(MOST_BYTES)
            size = os.fstat(stream.fileno()).st_size
    except OSError as error:
        if must:
            raise UsageError(
                f"{path}: {error.strerror}; name a log, or a folder with logs"
            ) from None
        return LogFile(str(path), problem=f"it cannot be read: {error.strerror}")
    return _as_text(str(path), data, size)


def _as_text(name: str, data: bytes, size: int) -> LogFile:
    if not data:
        # nvidia-smi nvlink --status prints nothing on GPUs without NVLink.
        links = "; of nvidia-smi nvlink that is the answer of GPUs without NVLink"
        return LogFile(name, problem="it is empty" + (links if "nvlink" in Path(name).name else ""))
    notes = []
    if size > len(data):
        notes.append(f"only its first {binary_size(len(data))} of {binary_size(size)} are read")
    encoding = next((kind for mark, kind in _MARKS.items() if data.startswith(mark)), "utf-8")
    head = data[:LOOK_BYTES]
    controls = len(head) - len(head.translate(None, _CONTROLS))
    if encoding != "utf-16" and controls > BINARY_SHARE * len(head):
        return LogFile(name, problem="it is binary, not a log")
    text = data.decode(encoding, "replace")
    nuls = text.count("\0")
    if nuls:
        notes.append(f"{count(nuls, 'NUL character')} left out")
        text = text.replace("\0", "")
    return LogFile(name, text, tuple(notes))
