"""One load at a time on a node: two runs that load it at once would measure each other."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from typing import Iterator

from hwcheck.node.check import CouldNotMeasure

NAME = "\0hwcheck-load"
"""An abstract socket name, unix(7): no file, one for all users, freed by the kernel when its
holder dies. It belongs to a network namespace: containers with their own do not see each other."""

IDLE_PERCENT = 20
"""A GPU that is in use for less may be that of a desktop."""
TRAIL_S = 5.0
"""So long a GPU may still say that it is in use by what this visit has just ended."""
LEAVE_S = 30.0
"""So long a process of this visit that has been ended may still be on a GPU: the driver takes
seconds to clean up what a process had on eight of them."""
IN_USE = "%s is %.0f %% in use by a process that draws, or that NVML does not name"
"""A desktop at work; or in a container, which does not see the processes of others."""


class BusyError(Exception):
    """The node is at work; the text says with what."""


def is_ours_or_gone(pid: int) -> bool:
    """Whether a process is in this process's session, as all that a visit starts, or has ended."""
    try:
        return os.getsid(pid) == os.getsid(0)
    except ProcessLookupError:
        return True


@contextmanager
def held() -> Iterator[None]:
    """Hold the lock for the length of the block.

    Raises BusyError when another process holds it. The socket is closed on exec, so what is
    started meanwhile does not hold it. Raises CouldNotMeasure where the kernel grants no socket:
    what cannot be known to be alone is not loaded.
    """
    import socket  # here: most visits load nothing

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind(NAME)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise BusyError("another hwcheck is loading this node") from None
            raise CouldNotMeasure("no load lock: %s" % error.strerror) from None
        yield
