"""All processes that come from this one, those in sessions of their own among them.

A signal to the process group does not reach a program that a wrapper put into another session, as
container wrappers and Ansible's workers do; and whose parent has ended is a child of init.
"""

from __future__ import annotations

import ctypes
import os
import signal
import time
from contextlib import contextmanager
from typing import Dict, Iterator, List, Optional, Set

PR_SET_CHILD_SUBREAPER = 36  # prctl(2)
END_S = 10.0
"""So long a program may take to have its daemon stop."""
LOOK_S = 0.05

_ended_first: Set[int] = set()


def adopt() -> None:
    """Become the parent of every descendant whose own parent ends, in place of init.

    Source: prctl(2), PR_SET_CHILD_SUBREAPER. Raises OSError when the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")


@contextmanager
def ended_first(pid: Optional[int]) -> Iterator[None]:
    """Have a process asked to end before any is killed, for the length of the block; None: nobody.

    A daemon works for it, outside this process's reach, and it has that stop when it is asked to.
    """
    _ended_first.update(() if pid is None else (pid,))
    try:
        yield
    finally:
        _ended_first.discard(-1 if pid is None else pid)


def end_first() -> None:
    """Ask those of ``ended_first`` to end, and wait until they have, for 10 s at most."""
    waited_for = set(_ended_first) & set(of(os.getpid()))
    for pid in waited_for:
        kill(pid, signal.SIGTERM)
    end_s = time.monotonic() + END_S
    while waited_for & set(of(os.getpid())) and time.monotonic() < end_s:
        time.sleep(LOOK_S)


def kill_all() -> None:
    """Kill every descendant of this process; ``adopt`` was called before there was one.

    Not waited for: one that is stuck in the kernel would not end. What has been killed starts
    nothing more, so it is over when two looks in a row meet nobody new: in one look, a child may be
    missed whose parent ends meanwhile.
    """
    end_first()
    killed: Set[int] = set()
    looks_without_new = 0
    while looks_without_new < 2:
        new = set(of(os.getpid())) - killed
        for pid in new:
            kill(pid)
        killed |= new
        looks_without_new = 0 if new else looks_without_new + 1


def kill(pid: int, by: int = signal.SIGKILL) -> None:
    """Kill one that may have ended meanwhile, or, behind sudo, may be another user's."""
    try:
        os.kill(pid, by)
    except (ProcessLookupError, PermissionError):
        return


def of(root: int) -> List[int]:
    """Return the descendants of a process, parents first. Source: proc_pid_stat(5), field 4."""
    children: Dict[int, List[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name, "rb") as stream:
                    state, parent = stream.read().rpartition(b")")[2].split()[:2]
            except (OSError, ValueError):  # it has ended
                continue
            if state not in (b"Z", b"X"):
                children.setdefault(int(parent), []).append(int(name))
    pids = list(children.get(root, ()))
    for pid in pids:
        pids += children.get(pid, ())
    return pids
