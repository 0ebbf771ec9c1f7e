"""Lets the server run ``hwcheck`` where a test starts it: imports and templates take over a second.

Where a stream is closed, a terminal or not UTF-8, hwcheck is run here.
"""

from __future__ import annotations

import os
import sys

READ = ("MPL", "PYTHON")
"""How the variables begin that Python and libraries read while they are imported."""


def main(path: str) -> None:
    """Let the server run this program; return where it must be run here."""
    import hashlib
    import signal

    from ansible import ask

    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if stream is None or stream.isatty() or stream.encoding != "utf-8":
            return
    read = sorted(each for each in os.environ.items() if each[0].startswith(READ))
    key = hashlib.sha256(repr(("hwcheck", read)).encode()).digest()
    ask(path, None, key, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
