"""The ``hwcheck`` command. What it imports comes later: a Ctrl-C may come while it does."""

from __future__ import annotations

import atexit
import gc
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from hwcheck.exit_codes import INTERRUPTED


def main() -> None:
    """Run the command line, and end this process."""
    try:
        run()
    except SystemExit as ended:
        if threading.active_count() == 1 and isinstance(ended.code, int):
            _end(ended.code)
        raise


def run(words: Sequence[str] | None = None) -> NoReturn:
    """Run a command line, that of this process as a rule. Raises SystemExit with the exit code."""
    _occupy_standard_streams()
    gc.set_threshold(100_000)  # most objects stay; to look for cycles among them costs a tenth
    try:
        from hwcheck.cli.root import call

        code = call(sys.argv[1:] if words is None else words)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on one more is no traceback
        if sys.stderr is not None:
            sys.stderr.write("hwcheck: interrupted\n")
        sys.exit(INTERRUPTED)
    sys.exit(code)


def _end(code: int) -> None:
    """End this process as Python does, but leave it to the kernel to free what is loaded.

    To free each object by itself takes a tenth of a second; so files have to be closed by who wrote
    them. Comes back where what was printed cannot be written: Python says why.
    """
    atexit._run_exitfuncs()
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        return
    os._exit(code & 0xFF)


def _occupy_standard_streams() -> None:
    """Where a caller closed one (``2>&-``) the next file or socket would take its place."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free: this one
