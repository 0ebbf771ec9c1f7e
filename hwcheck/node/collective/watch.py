"""Watch the ranks of a leg until all are done, one fails, or the wall clock runs out."""

from __future__ import annotations

import select
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

from hwcheck.node.collective.ranks import RankGroup, RankProcess, wait_until
from hwcheck.node.collective.spec import size_text
from hwcheck.node.collective.timing import summarize
from hwcheck.wire import SizeTiming

# An exception in one rank is often the echo of another's death, which comes a moment later.
ECHO_S = 0.3
EXIT_S = 2.0


class Watch:
    """Puts together what the ranks of one leg send."""

    def __init__(
        self, group: RankGroup, busbw_factor: float, on_size: Callable[[SizeTiming], None]
    ) -> None:
        self.sizes: List[SizeTiming] = []
        self.library = ""
        self.stop = ""
        self._group = group
        self._factor = busbw_factor
        self._on_size = on_size
        self._parts: Dict[int, List[Dict[str, Any]]] = {}

    def until(self, deadline: float) -> Tuple[str, str]:
        """Return the leg's state (done, failed, hang) and the reason.

        ``deadline`` is on the monotonic clock.
        """
        settled: Optional[float] = None
        while True:
            now = time.monotonic()
            end = deadline if settled is None else min(deadline, settled)
            speaking = [rank for rank in self._group.ranks if not rank.silent]
            if not speaking or now >= end or self._dead():
                return self._verdict()
            fds = [rank.pipe_fd for rank in speaking]
            ready = select.select(fds, [], [], end - now)[0]
            for rank in speaking:
                if rank.pipe_fd in ready:
                    self._take(rank)
            if settled is None:
                settled = self._settle()

    def _settle(self) -> Optional[float]:
        """Return until when to listen once the outcome is known; None while it is open."""
        if any(rank.error for rank in self._group.ranks):
            return time.monotonic() + ECHO_S
        if all(rank.done for rank in self._group.ranks):
            return time.monotonic() + EXIT_S
        return None

    def _verdict(self) -> Tuple[str, str]:
        dead = self._dead()
        if dead is not None:
            wait_until(dead.ended, EXIT_S)
            return "failed", dead.death() or "rank %d ended without a word" % dead.rank
        errors = [rank for rank in self._group.ranks if rank.error]
        if errors:
            first = min(errors, key=lambda rank: rank.error_at)
            return "failed", "rank %d: %s" % (first.rank, first.error)
        if all(rank.done for rank in self._group.ranks):
            return "done", ""
        if not self.sizes:
            return "hang", "before the first size was finished"
        return "hang", "after %s was finished" % size_text(self.sizes[-1].size_bytes)

    def _dead(self) -> Optional[RankProcess]:
        """Return the first rank that ended without a word."""
        for rank in self._group.ranks:
            if rank.silent and not rank.done and not rank.error:
                return rank
        return None

    def _take(self, rank: RankProcess) -> None:
        for message in rank.read():
            kind = message["kind"]
            if kind == "joined":
                self.library = message["library"]
            elif kind == "size":
                self._add(message)
            elif kind == "done":
                rank.done, self.stop = True, message["stop"]
            elif kind == "error":
                rank.error, rank.error_at = message["reason"], message["at"]

    def _add(self, message: Dict[str, Any]) -> None:
        size_bytes = message["size_bytes"]
        parts = self._parts.setdefault(size_bytes, [])
        parts.append(message)
        if len(parts) < len(self._group.ranks):
            return
        times = [part["times_us"] for part in parts]
        wrong = sum(part["wrong"] for part in parts)
        timing = summarize(size_bytes, times, self._factor, wrong)
        self.sizes.append(timing)
        self._on_size(timing)
