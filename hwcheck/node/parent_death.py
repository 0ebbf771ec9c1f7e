"""Tie a process's life to its parent's, so that nothing of ours outlives the payload."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1  # prctl(2)


def die_with(parent_pid: int, by: int = signal.SIGKILL) -> None:
    """Have the kernel end this process, by a signal, when its parent dies.

    Call it first thing in a new process, with the pid that the parent had: when the parent is
    gone already, this process ends at once. Source: prctl(2), PR_SET_PDEATHSIG; the signal is
    kept over execve. Raises OSError when the kernel refuses.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, by, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:
        os._exit(1)


def main() -> None:
    """Become a program that is tied to the parent; its start waits for no other imports.

    ``sys.argv``: the payload's path, its process, the signal of its end, the program, options. The
    tie is kept over execve (prctl(2), PR_SET_PDEATHSIG).
    """
    die_with(int(sys.argv[2]), int(sys.argv[3]))
    try:
        os.execv(sys.argv[4], sys.argv[4:])  # noqa: S606 - the program is what the inventory names
    except OSError as error:
        sys.exit("%s cannot be started: %s" % (sys.argv[4], error.strerror))
