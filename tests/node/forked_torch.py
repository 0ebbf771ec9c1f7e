"""What starts the child that has torch by a fork of this process, which has it too.

A new interpreter takes 2 s to import it.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from typing import IO, Any

import pytest


def prepare() -> None:
    """Import torch; skip where it is not installed."""
    # Threads of it would not be there in a fork.
    pytest.importorskip("torch").set_num_threads(1)


def start(
    python: str,
    boot: str,
    payload: str,
    stdin: int | IO[bytes],
    log_fd: int,
    env: Mapping[str, str] | None = None,
) -> InAFork:
    """Take the place of ``torch_process.start``, for the interpreter of this process."""
    streams = {"stdin": stdin, "stdout": subprocess.PIPE, "stderr": log_fd}
    return InAFork([python, "-c", boot, payload], env=env, **streams)


class InAFork(subprocess.Popen[bytes]):
    """Runs the code that the interpreter would be given."""

    def _execute_child(self, args: Sequence[str], *rest: Any) -> None:
        """Take the place of what the standard library starts a program with."""
        env: Mapping[str, str] | None = rest[5]
        from_here, _, _, to_here, _, errors = rest[9:15]  # the ends of its three streams
        self._child_created = True
        self.pid = os.fork()
        if self.pid:
            for fd in (from_here, to_here):
                os.close(fd)
            return
        try:
            for number, fd in enumerate((from_here, to_here, errors)):
                os.dup2(fd, number)
            os.closerange(3, os.sysconf("SC_OPEN_MAX"))
            sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if env is not None:
                os.environ.clear()
                os.environ.update(env)
            _, _, boot, payload = args
            sys.argv = ["-c", payload]
            exec(boot, {})
            os._exit(0)
        except BaseException:
            traceback.print_exc(file=open(2, "w"))  # noqa: SIM115
            os._exit(1)
