"""The kernel log, read where it can be: the kernel's own buffer, the journal, a text file."""

from __future__ import annotations

import math
import os
import re
import time
from typing import Iterable, Iterator, List, Sequence, Tuple

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import KernelLog, KernelMessage
from hwcheck.contract.reasons import NO_PERMISSION
from hwcheck.node.host.tree import Tree

READ_LIMIT_BYTES = 8 << 20
"""No buffer or boot's log that is of use is larger; the end of a longer one is read."""

TIME_LIMIT_S = 5.0

TEXT_FILES = ("var/log/kern.log", "var/log/messages", "var/log/syslog")
"""Where Debian's and RHEL's families keep the kernel's messages; group adm or root reads them."""

JOURNAL = (
    *("journalctl", "--dmesg", "--boot", "--quiet", "--no-pager"),
    *("--output=short-monotonic", "--lines=100000"),
)
BOOT = "Linux version "
"""The kernel's first message."""

RECORD = re.compile(r"\d+,(\d+),(\d+),[^;]*;(.*)")
"""A record of /dev/kmsg: level, sequence number, microseconds since boot, flags; text."""

LINE = re.compile(
    r"(?:\[\s*(\d+\.\d+)\] \S+ kernel: "
    r"|(?:[A-Z]\w\w [ \d]\d [\d:]{8}|\d{4}-\S+) \S+ kernel: \[\s*(\d+\.\d+)\] )(.*)"
)
"""A line of the journal or of a text file: seconds since boot, text. Anybody can write a line that
looks like the kernel's behind the name of another program, so the whole start counts."""

Stamped = Tuple[float, str]
Part = Tuple[List[Stamped], bool]
"""Messages of this boot, and whether they begin with it."""


class LogReader(Tree):
    """The kernel log for ``node.NodeHost``."""

    def kernel_log(self, words: Sequence[str]) -> KernelLog:
        """Kernel messages since boot with one of these words. Raises CouldNotMeasure."""
        # The kernel's buffer is tried first: nothing else has to run for it. Where it may not be
        # read the journal and then the log files stand in, and where it has lost its beginning they
        # tell what came before; when all have lost it, the one that goes back farthest does.
        uptime_s = self.uptime_s()
        messages, complete = self._buffer()
        if not complete:
            messages, complete = self._completed(messages, uptime_s)
        if not messages:
            raise CouldNotMeasure(
                "the kernel log cannot be read; run as root or as a member of group adm",
                NO_PERMISSION,
            )
        with_words = tuple(
            KernelMessage(text, max(0.0, uptime_s - at))
            for at, text in messages
            if any(word in text for word in words)
        )
        return KernelLog(with_words, complete, max(0.0, uptime_s - messages[0][0]))

    def _completed(self, buffered: List[Stamped], uptime_s: float) -> Part:
        """Return the buffer with what came before it, as far back as anybody has it."""
        since = buffered[0][0] if buffered else math.inf
        best: Part = (buffered, False)
        for earlier, complete in self._written(uptime_s):
            # One that ends before the buffer begins leaves a hole, however far it goes back.
            if buffered and earlier[-1][0] < since:
                continue
            if complete or not best[0] or earlier[0][0] < best[0][0][0]:
                best = [item for item in earlier if item[0] < since] + buffered, complete
            if complete:
                break
        return best

    def _written(self, uptime_s: float) -> Iterator[Part]:
        """Yield what the journal and the log files have of this boot."""
        booted = time.time() - uptime_s
        for lines in (self._journal(), *(self._tail(path, booted) for path in TEXT_FILES)):
            messages = list(_stamped(lines))
            boots = [n for n, (_, text) in enumerate(messages) if text.startswith(BOOT)]
            if messages:
                yield messages[boots[-1] if boots else 0 :], bool(boots)

    def uptime_s(self) -> float:
        """Seconds since boot. Raises CouldNotMeasure."""
        match = re.match(r"(\d+\.\d+)", self._read("proc/uptime"))
        if not match:
            raise self._unread("proc/uptime", "/proc/uptime cannot be read")
        return float(match.group(1))

    def _buffer(self) -> Part:
        """Return the kernel's buffer, which is empty where it may not be read."""
        records = [match for match in map(RECORD.match, self._kmsg()) if match]
        if not records:
            return [], False
        messages = [(int(match.group(2)) / 1e6, match.group(3)) for match in records]
        return messages, int(records[0].group(1)) == 0

    def _kmsg(self) -> List[str]:
        data = b""
        ends = time.monotonic() + TIME_LIMIT_S
        try:
            descriptor = os.open(self._path("dev/kmsg"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return []
        try:
            while len(data) < READ_LIMIT_BYTES and time.monotonic() < ends:
                try:
                    more = os.read(descriptor, 8192)
                except BrokenPipeError:
                    continue  # the record was overwritten meanwhile; the next read goes on
                except OSError:
                    break  # at the end, or not allowed
                if not more:
                    break
                data += more
        finally:
            os.close(descriptor)
        return data.decode("utf-8", "replace").split("\n")

    def _journal(self) -> List[str]:
        if self._root != "/":
            return []  # the journal of this machine is not that of another root
        import subprocess  # here: the buffer of the kernel mostly does

        try:
            done = subprocess.run(
                JOURNAL,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                timeout=TIME_LIMIT_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return []
        return done.stdout[-READ_LIMIT_BYTES:].decode("utf-8", "replace").split("\n")

    def _tail(self, path: str, booted: float) -> List[str]:
        """Return the end of a file that was written to since the node booted (Unix time, s)."""
        try:
            with open(self._path(path), "rb") as stream:
                status = os.fstat(stream.fileno())
                if status.st_mtime < booted:
                    return []  # whoever wrote it has stopped: it is about other boots
                stream.seek(max(0, status.st_size - READ_LIMIT_BYTES))
                data = stream.read(READ_LIMIT_BYTES)
        except OSError:
            return []
        return data.decode("utf-8", "replace").split("\n")


def _stamped(lines: Iterable[str]) -> Iterator[Stamped]:
    for line in lines:
        match = LINE.match(line)
        if match:
            yield float(match.group(1) or match.group(2)), match.group(3)
