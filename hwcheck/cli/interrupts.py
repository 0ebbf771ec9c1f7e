"""Ctrl-C, SIGTERM and a closed terminal while a run is under way."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from types import FrameType, TracebackType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TOO_LATE = b"hwcheck: no host is visited any more; a second Ctrl-C ends this without a report\n"


class Interrupts:
    """A context manager in which the first signal ends the visits and the second ends hwcheck.

    The first sets ``stop``. When ``visits_over`` was called it changes nothing and says so: what
    was measured is still judged. The second raises KeyboardInterrupt in the main thread.
    """

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._signaled = False
        self._visiting = True
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            before = signal.getsignal(number)
            if number == signal.SIGHUP and before == signal.SIG_IGN:
                continue  # nohup
            self._before[number] = before
            signal.signal(number, self._handle)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def visits_over(self) -> None:
        """From here on there is nothing to stop, only to judge and render."""
        self._visiting = False

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002
        if self._signaled:
            raise KeyboardInterrupt
        self._signaled = True
        if self._visiting:
            self._stop.set()
        elif sys.stderr is not None:
            # Not through sys.stderr: this may have come amid a write to it.
            with contextlib.suppress(OSError):  # nobody reads it
                os.write(2, TOO_LATE)
