"""What the workers of one burn share: the word to start, the word to end, the turn for PCIe."""

from __future__ import annotations

import fcntl
import select
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Iterator


@dataclass(frozen=True)
class Shared:
    """Descriptors that every worker inherits.

    ``go_fd`` and ``stop_fd`` are pipes that nothing is written to: their ends are the words.
    ``lock_fd`` is a file.
    """

    go_fd: int
    stop_fd: int
    lock_fd: int

    def must_end(self) -> bool:
        """Whether the word to end has come; it has too when the payload is gone."""
        return ended(self.stop_fd)

    def wait_for_go(self) -> None:
        """Wait for the word to start, or to end: all GPUs get to work at the same time."""
        select.select([self.go_fd, self.stop_fd], [], [])

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the lock; a worker that dies frees it."""
        fcntl.lockf(self.lock_fd, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.lockf(self.lock_fd, fcntl.LOCK_UN)


def ended(fd: int) -> bool:
    """Whether the pipe has ended."""
    return bool(select.select([fd], [], [], 0)[0])
