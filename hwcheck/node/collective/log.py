"""A leg's log: a file without a name, so that nothing of it stays on the node."""

from __future__ import annotations

import os
import re
import tempfile

BREAKS = "hwcheck: a rank breaks"  # above its traceback
FIRST_BREAK = re.compile("%s|Fatal Python error: " % BREAKS)
TAIL_LINES = 80  # stacks of two ranks
TAIL_CHARACTERS = 20000
READ_BYTES = 256 * 1024
PROOF_BYTES = 8 * 1024 * 1024
VISIT_BYTES = 2 * 1024 * 1024  # of a launcher's log, which holds those of all legs


class Log:
    """Everything that some processes print. They share its file offset, so writes append."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by __exit__)
        self.fd = self._file.fileno()

    def write(self, text: str) -> None:
        """Add text of our own."""
        data = text.encode("utf-8", "replace")
        while data:
            data = data[os.write(self.fd, data) :]

    def size(self) -> int:
        """Return the length in bytes."""
        return os.fstat(self.fd).st_size

    def read(self, start: int = 0, end: int = -1, most: int = READ_BYTES) -> str:
        """Return the text between two byte offsets; of a long one ``most`` of begin and end each.

        Connections are named first, and what broke is named last.
        """
        end = self.size() if end < 0 else end
        cut = end - start - 2 * most
        if cut <= 0:
            return self._at(start, end - start)
        first, last = self._at(start, most), self._at(end - most, most)
        return "%s\n-- %d bytes left out\n%s" % (first, cut, last)

    def whole(self, start: int = 0) -> str:
        """Return the text from a byte offset on, of a long one the first 8 MiB."""
        return self._at(start, PROOF_BYTES)

    def _at(self, start: int, count: int) -> str:
        return os.pread(self.fd, count, start).decode("utf-8", "replace")

    def tail(self, end: int = -1) -> str:
        """Return the last lines before byte ``end``, of a longer log also those of the first break.

        80 lines, 20,000 characters at most.
        """
        end = self.size() if end < 0 else end
        start = max(0, end - PROOF_BYTES)
        return tail_of(self._at(start, end - start))

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *exc: object) -> None:
        self._file.close()


def head_of(path: str) -> str:
    """Return the first 8 MiB of a file that some process writes; nothing where there is none."""
    if not os.path.exists(path):
        return ""
    with open(path, "rb") as stream:
        return stream.read(PROOF_BYTES).decode("utf-8", "replace")


def shortened(text: str, most: int = READ_BYTES) -> str:
    """Return a text; of a long one ``most`` characters of its begin and of its end."""
    cut = len(text) - 2 * most
    if cut <= 0:
        return text
    return "%s\n-- %d characters left out\n%s" % (text[:most], cut, text[-most:])


def tail_of(text: str) -> str:
    """Return the last lines; where the first rank broke before them, half is where it did.

    What it ran into others print after it, and gloo at length.
    """
    tail = last_lines(text)
    broke = FIRST_BREAK.search(text)
    if broke is None or broke.start() >= len(text.rstrip("\n")) - len(tail):
        return tail
    left_out = "\n-- lines left out\n"
    lines, characters = TAIL_LINES // 2, TAIL_CHARACTERS // 2 - len(left_out)
    first = "\n".join(text[broke.start() :].split("\n", lines)[:lines])[:characters]
    return first + left_out + "\n".join(tail.split("\n")[1 - lines :])[-characters:]


def last_lines(text: str) -> str:
    """Return the last 80 lines, 20,000 characters at most."""
    return "\n".join(text.rstrip("\n").split("\n")[-TAIL_LINES:])[-TAIL_CHARACTERS:]
