"""One load at a time on a node: two runs that load it at once would measure each other."""

from __future__ import annotations

import errno
import os
import struct
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Iterable, Iterator, Optional, Tuple

from hwcheck.contract.check import CouldNotMeasure, Unanswered
from hwcheck.contract.reasons import AT_WORK, of_errno

if TYPE_CHECKING:
    import socket

NAME = "\0hwcheck-load"
"""An abstract socket name, unix(7): no file, one for all users, freed by the kernel when its
holder dies. It belongs to a network namespace: containers with their own do not see each other."""
PLACES = 8
"""Any user may take a name. One that a stranger holds is passed over, and the next is the lock: all
visits try these names in one order."""
ANSWER_S = 1.0
"""A holder that has not answered for so long is none of ours."""
CREDENTIALS = struct.Struct("iII")
"""``struct ucred``: process, user, group."""

IDLE_PERCENT = 20
"""A GPU that is in use for less may be that of a desktop."""
TRAIL_S = 5.0
"""So long a GPU may still say that it is in use by what this visit has just ended."""
LEAVE_S = 30.0
"""So long a process of this visit that has been ended may still be on a GPU: the driver takes
seconds to clean up what a process had on eight of them."""
IN_USE = "%s is %.0f %% in use by a process that draws, or that NVML does not name"
"""A desktop at work; or in a container, which does not see the processes of others."""


class BusyError(Unanswered):
    """The node is at work; the text says with what."""

    CODE = AT_WORK


def is_ours_or_gone(pid: int) -> bool:
    """Whether a process is in this process's session, as all that a visit starts, or has ended."""
    try:
        return os.getsid(pid) == os.getsid(0)
    except ProcessLookupError:
        return True


@contextmanager
def held() -> Iterator[None]:
    """Hold the lock for the length of the block.

    Raises BusyError when a process of this user or of root holds it: no other is believed to load
    the node. The socket is closed on exec, so what is started meanwhile does not hold it. Raises
    CouldNotMeasure where the kernel grants no socket, or strangers hold every name: what cannot be
    known to be alone is not loaded.
    """
    import socket  # here: most visits load nothing

    strangers = []
    names = [NAME, *(NAME + ".%d" % place for place in range(1, PLACES))]
    for place, name in enumerate(names):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
            holder = _take(lock, name)
            if holder is None:
                # Who holds a later name passed over this one when a stranger still had it.
                _refuse_if_ours(filter(None, map(_holder, names[place + 1 :])))
                lock.listen(PLACES)
                threading.Thread(target=_answer, args=(lock,), daemon=True).start()
                try:
                    yield
                finally:
                    lock.shutdown(socket.SHUT_RDWR)  # ends the thread
                return
        _refuse_if_ours([holder])
        strangers.append("process %d of user %d" % holder if holder[0] else "one that is silent")
    words = "strangers hold the load lock: %s; end them" % ", ".join(strangers)
    raise CouldNotMeasure(words, AT_WORK)


def _refuse_if_ours(holders: Iterable[Tuple[int, int]]) -> None:
    """Raise BusyError where one of these processes is of this user or of root."""
    if any(user in (0, os.geteuid()) for _, user in holders):
        raise BusyError("another hwcheck is loading this node")


def _take(lock: socket.socket, name: str) -> Optional[Tuple[int, int]]:
    """Bind a socket to a name; return process and user of who has it already, else None.

    Both are 0 and -1 where that one does not answer, as ours does. Raises CouldNotMeasure.
    """
    until = time.monotonic() + ANSWER_S
    while True:
        try:
            lock.bind(name)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise CouldNotMeasure(
                    "no load lock: %s" % error.strerror, of_errno(error.errno)
                ) from None
        else:
            return None
        holder = _holder(name)
        if holder is not None:
            return holder
        if time.monotonic() > until:
            return 0, -1
        time.sleep(0.01)


def _holder(name: str) -> Optional[Tuple[int, int]]:
    """Return process and user of who listens at a name, as the kernel has them; None if nobody.

    Source: unix(7), SO_PEERCRED.
    """
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.setblocking(False)
        try:
            asking.connect(name)
        except OSError:
            return None
        credentials = asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        pid, user, _ = CREDENTIALS.unpack(credentials)
        return pid, user


def _answer(lock: socket.socket) -> None:
    """Let everybody see who holds the lock, until it is shut down."""
    while True:
        try:
            lock.accept()[0].close()
        except OSError:
            return
