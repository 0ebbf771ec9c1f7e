"""How far a run or a playbook is: on stderr, a live line on a terminal and lines that stay."""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from hwcheck.provision.events import PlayEvent
from hwcheck.run.fan_out import VisitEvent
from hwcheck.tasks.output import mute
from hwcheck.text import line

if TYPE_CHECKING:
    from typing_extensions import Self

RUNNING_SHOWN = 3
QUIET = {"ok", "skipped"}
NO_HOST = {"play", "task"}


class _Stderr(Console):
    """Rich would end the thread that printed, and silence stdout, when stderr has no reader."""

    def __init__(self) -> None:
        super().__init__(stderr=True)

    def on_broken_pipe(self) -> None:
        """Leave it to the caller."""
        raise BrokenPipeError


class LiveLine(ABC):
    """A line on stderr that is drawn anew while the block runs; on no terminal there is none.

    A stderr that nobody reads any more costs the display and nothing else.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or _Stderr()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._live = Live(
                console=self._console,
                get_renderable=self._line,
                refresh_per_second=4,
                transient=True,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            try:
                self._live.stop()
            except OSError:  # the terminal is gone
                mute(sys.stderr)

    def _print(self, text: str) -> None:
        """Print a line that stays."""
        try:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)
        except OSError:
            mute(sys.stderr)

    @abstractmethod
    def _line(self) -> Text:
        """Return the line as it is now."""


class Progress(LiveLine):
    """Shows the events of a fan-out; use it as a context manager and call it with each event."""

    def __init__(
        self, hosts: int, *, verbose: bool = False, console: Console | None = None
    ) -> None:
        super().__init__(console)
        self._hosts = hosts
        self._verbose = verbose
        self._lock = threading.Lock()
        self._running: dict[str, tuple[float, str]] = {}
        self._done = 0
        self._failing = 0

    def __call__(self, event: VisitEvent) -> None:
        """Take one event, from any thread."""
        with self._lock:
            started, _ = self._running.get(event.host, (time.monotonic(), ""))
            if event.kind == "finished":
                self._running.pop(event.host, None)
                self._done += 1
                self._failing += event.state != "reported"
            else:
                self._running[event.host] = (started, event.text)
        if event.kind == "finished" or self._verbose:
            took = time.monotonic() - started
            self._print(f"{event.host}: {line(_event_text(event, took))}")

    def _line(self) -> Text:
        with self._lock:
            slowest = sorted(self._running.items(), key=lambda item: item[1][0])[:RUNNING_SHOWN]
            text = f"{self._done} of {self._hosts} hosts done"
            text += f", {self._failing} without a full answer"
        now = time.monotonic()
        shown = [f"{host} {now - started:.0f} s {line(what)}" for host, (started, what) in slowest]
        return Text("; ".join([text, *shown]), overflow="ellipsis", no_wrap=True)


def _event_text(event: VisitEvent, took_s: float) -> str:
    if event.kind != "finished":
        return event.text or event.kind
    return f"{event.state} after {took_s:.1f} s" + (f": {event.text}" if event.text else "")


class PlayProgress(LiveLine):
    """Shows what Ansible does; use it as a context manager and call it with each event.

    ``task_began`` is whether a task has begun: from then on a host may be changed.
    """

    def __init__(self, *, verbose: bool = False, console: Console | None = None) -> None:
        super().__init__(console)
        self._verbose = verbose
        self._at = "starting"
        self._counts: Counter[str] = Counter()
        self.task_began = False

    def __call__(self, event: PlayEvent) -> None:
        """Take one event."""
        where = f"{event.role}: {event.task}" if event.role else event.task
        self.task_began = self.task_began or event.kind == "task"
        if event.kind in NO_HOST:
            self._at = where or event.play
            return
        self._counts[event.kind] += 1
        if event.kind == "diff":
            self._print(event.text)
        elif self._verbose or event.kind not in QUIET:
            item = f" ({event.item})" if event.item else ""
            reason = f": {event.text}" if event.text else ""
            self._print(f"{event.host}: {event.kind}: {where}{item}{reason}")

    def _line(self) -> Text:
        counts = ", ".join(
            f"{self._counts[kind]} {kind}"
            for kind in ("changed", "failed", "unreachable")
            if self._counts[kind]
        )
        text = "; ".join(part for part in (self._at, counts) if part)
        return Text(text, overflow="ellipsis", no_wrap=True)
