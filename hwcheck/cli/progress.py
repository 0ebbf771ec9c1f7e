"""How far a run or a playbook is: on stderr, a live line on a terminal and lines that stay."""

from __future__ import annotations

import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from types import TracebackType
from typing import TYPE_CHECKING

from rich.console import Console
from rich.live import Live
from rich.text import Text

from hwcheck.cli.output import mute
from hwcheck.provision.events import PlayEvent
from hwcheck.run.fan_out import VisitEvent
from hwcheck.text import line

if TYPE_CHECKING:
    from typing_extensions import Self

RUNNING_SHOWN = 8
"""Hosts under way that have a line of their own on a terminal: those that run longest."""
QUIET_S = 30.0
"""Elsewhere a host under way that works on something else has a line, but no more often than so."""
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
    """Lines on stderr that are drawn anew while the block runs; without a terminal there are none.

    A stderr that nobody reads any more costs the display and nothing else.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or _Stderr()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        if self._console.is_terminal and not self._console.is_dumb_terminal:
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


@dataclass
class _RunningVisit:
    """A visit under way: when it began and had its last line, and what the host works on."""

    began: float
    shown_at: float
    works_on: str = ""


class Progress(LiveLine):
    """Shows the events of a fan-out; use it as a context manager and call it with each event.

    On a terminal: how many hosts are done, how long the rest may take, and those that run longest.
    Elsewhere: a line for each host that is done, and now and then for one under way.
    """

    def __init__(
        self,
        hosts: int,
        *,
        forks: int = 1,
        verbose: bool = False,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(console)
        self._hosts = hosts
        self._forks = forks
        self._verbose = verbose
        self._clock = clock
        self._lock = threading.Lock()
        self._running: dict[str, _RunningVisit] = {}
        self._took: list[float] = []
        self._done = 0
        self._failing = 0

    def __call__(self, event: VisitEvent) -> None:
        """Take one event, from any thread."""
        now = self._clock()
        with self._lock:
            visit = self._running.setdefault(event.host, _RunningVisit(now, now))
            took = now - visit.began
            if event.kind == "finished":
                del self._running[event.host]
                self._done += 1
                self._failing += event.state != "reported"
                self._took.append(took)
                text = f"[{self._done}/{self._hosts}] {event.host}: {_ended(event, took)}"
            else:
                changed = event.text != visit.works_on
                visit.works_on = event.text
                late = self._live is None and changed and now - visit.shown_at >= QUIET_S
                if not (self._verbose or late):
                    return
                visit.shown_at = now
                text = f"{event.host}: {event.text or event.kind}"
                text += f" ({_minutes(took)})" if late else ""
        self._print(line(text))

    def _line(self) -> Text:
        now = self._clock()
        with self._lock:
            slowest = sorted(self._running.items(), key=lambda item: item[1].began)
            text = f"{self._done} of {self._hosts} hosts done, {len(self._running)} under way"
            text += f", {self._failing} without a full answer" if self._failing else ""
            left_s = self._left_s(now)
        text += f", about {_minutes(left_s)} left" if left_s is not None else ""
        rows = [
            f"  {host}  {_minutes(now - visit.began)}  {line(visit.works_on)}"
            for host, visit in slowest[:RUNNING_SHOWN]
        ]
        more = len(slowest) - RUNNING_SHOWN
        rows += [f"  and {more} more"] if more > 0 else []
        return Text("\n".join([text, *rows]), overflow="ellipsis", no_wrap=True)

    def _left_s(self, now: float) -> float | None:
        """Return how long the rest may take if it is like what is done; None before any is."""
        if not self._took or self._done >= self._hosts:
            return None
        usual = median(self._took)
        waiting = self._hosts - self._done - len(self._running)
        under_way = [max(0.0, usual - (now - visit.began)) for visit in self._running.values()]
        return max(under_way, default=0.0) + usual * -(-waiting // self._forks)


def _minutes(seconds: float) -> str:
    """Return ``45 s``, ``12 min``, ``3 h 20 min``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def _ended(event: VisitEvent, took_s: float) -> str:
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
