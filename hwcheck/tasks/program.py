"""The ``hwcheck`` command. What it imports comes later: a Ctrl-C may come while it does."""

from __future__ import annotations

import gc
import os
import signal
import sys

from hwcheck.exit_codes import INTERRUPTED


def main() -> None:
    """Run the command line."""
    _occupy_standard_streams()
    gc.set_threshold(100_000)  # most objects stay; to look for cycles among them costs a tenth
    try:
        from hwcheck.tasks.command_line import program

        program.run()
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # from here on one more is no traceback
        if sys.stderr is not None:
            sys.stderr.write("hwcheck: interrupted\n")
        sys.exit(INTERRUPTED)


def _occupy_standard_streams() -> None:
    """Where a caller closed one (``2>&-``) the next file or socket would take its place."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest that is free: this one
