"""The payload dies when its controller is gone, and says that it lives while it runs."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
import time
from typing import Callable, Optional

from hwcheck.node import descendants

ALIVE_EVERY_S = 5.0


Take = Callable[[bytes], None]


def start(
    stdin_fd: int, silence_s: float, say_alive: Callable[[], None], take: Optional[Take] = None
) -> None:
    """Watch ``stdin_fd`` in a thread; end this process and all its descendants with the controller.

    The controller is gone when stdin ends (it closed, or sshd noticed that the connection broke)
    or when nothing came for ``silence_s``: it writes a newline every few seconds, because a cut
    link ends no connection. ``say_alive`` is called every 5 s for the same reason. ``take`` gets
    what comes, newlines of that kind too.
    """
    args = (stdin_fd, silence_s, say_alive, take)
    threading.Thread(target=_watch, args=args, daemon=True).start()


def _watch(
    stdin_fd: int, silence_s: float, say_alive: Callable[[], None], take: Optional[Take]
) -> None:
    last_byte = time.monotonic()
    while True:
        ready, _, _ = select.select([stdin_fd], [], [], ALIVE_EVERY_S)
        if ready:
            data = os.read(stdin_fd, 4096)
            if not data:
                _end("the controller closed the connection")
            last_byte = time.monotonic()
            if take is not None:
                take(data)
        elif time.monotonic() - last_byte > silence_s:
            _end("nothing from the controller for %.0f s" % silence_s)
        try:
            say_alive()
        except OSError:  # nobody reads us any more
            _end("the controller stopped reading")


def _end(why: str) -> None:
    try:
        sys.stderr.write("hwcheck: %s, ending\n" % why)
        sys.stderr.flush()
    finally:
        try:
            descendants.kill_all()
        finally:
            # The process group is ours: the bootstrap called setsid.
            os.killpg(os.getpgrp(), signal.SIGKILL)
