"""Watch the ranks of a leg until all are done, one fails, or the wall clock runs out."""

from __future__ import annotations

import select
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Dict, List, Optional, Tuple

from hwcheck.contract.collective_spec import size_text
from hwcheck.contract.wire import SizeTiming
from hwcheck.node.collective.ranks import RankGroup, RankProcess, wait_until
from hwcheck.node.collective.timing import slowest, summarize

# An exception in one rank is often the echo of another's death, which comes a moment later.
ECHO_S = 0.3
EXIT_S = 2.0
DEATH_S = 10.0  # a process that has used a GPU takes seconds to end
LOOK_S = 0.2


@dataclass(frozen=True)
class TimedSize:
    """One size as the ranks timed it: for each iteration the slowest rank's time (us).

    ``requested_bytes`` is rounded down to whole chunks for ``size_bytes``.
    """

    requested_bytes: int
    size_bytes: int
    in_place: bool
    times_us: List[float]
    wrong: int
    took_s: float


class Watch:
    """Puts together what the ranks of one leg send.

    With ``stays`` the ranks are done with a turn and not with the leg: they are not waited for.
    ``largest`` is the last size that they were asked for, ``timed`` what ``sizes`` were made of,
    ``others`` the messages of kinds that mean nothing here.
    """

    def __init__(
        self,
        group: RankGroup,
        busbw_factor: float,
        on_size: Callable[[SizeTiming], None],
        stays: bool = False,
    ) -> None:
        self.sizes: List[SizeTiming] = []
        self.timed: List[TimedSize] = []
        self.others: List[Dict[str, Any]] = []
        self.library = ""
        self.stop = ""
        self.largest = 0
        self._stays = stays
        self._group = group
        self._factor = busbw_factor
        self._on_size = on_size
        self._parts: Dict[Tuple[int, bool], List[Dict[str, Any]]] = {}
        self._last_message = time.monotonic()
        for rank in group.ranks:
            rank.done = rank.started = False

    def until_started(
        self, limit_s: float, first_run_s: float, has_communicator: Callable[[], bool]
    ) -> Tuple[str, str]:
        """Wait until every rank has a verified run behind it; return the state and the reason.

        Both are empty where they have, or where ``until`` knows what became of them. Ranks that
        have no communicator after ``limit_s`` have not started (``not_started``); those that have
        one and are silent for ``first_run_s`` hang: peer access that does not work shows there.
        """
        end, connecting = time.monotonic() + limit_s, False
        while not self._start_is_over():
            if not connecting and has_communicator():
                connecting, end = True, time.monotonic() + first_run_s
            left_s = end - time.monotonic()
            if left_s <= 0:
                return ("hang" if connecting else "not_started"), self._where()
            self._listen(min(left_s, LOOK_S))
        return "", ""

    @property
    def joined(self) -> bool:
        """Whether every rank has met the others, which for gloo is its communicator."""
        return all(rank.joined for rank in self._group.ranks)

    def _start_is_over(self) -> bool:
        """Whether every rank has started, or has done what ends a turn otherwise."""
        ranks = self._group.ranks
        ended = self._dead() or any(rank.error for rank in ranks)
        return bool(ended) or all(rank.started or rank.done for rank in ranks)

    def _listen(self, wait_s: float) -> None:
        """Take what the ranks send, once something comes or the time is over."""
        speaking = [rank for rank in self._group.ranks if not rank.silent]
        ready = select.select([rank.pipe_fd for rank in speaking], [], [], wait_s)[0]
        for rank in speaking:
            if rank.pipe_fd in ready:
                self._take(rank)

    def until(
        self, deadline: float, silence_s: Optional[Callable[[], float]] = None
    ) -> Tuple[str, str]:
        """Return the leg's state (done, failed, hang, late) and the reason.

        ``deadline`` is on the monotonic clock. Ranks that were silent for ``silence_s`` then hang;
        those that speak are late.
        """
        settled = self._settle()
        limit = deadline
        while True:
            now = time.monotonic()
            end = deadline if settled is None else min(deadline, settled)
            speaking = [rank for rank in self._group.ranks if not rank.silent]
            if silence_s and settled is None and now >= limit and speaking and not self._dead():
                if self._last_message > limit:
                    return "late", self._where()
                end = deadline = max(limit, self._last_message + silence_s())
            if not speaking or now >= end or self._dead():
                return self._verdict()
            self._listen(end - now)
            if settled is None:
                settled = self._settle()

    def at(self) -> int:
        """Return the last size that was timed, as asked for (bytes); 0 where none was."""
        return self.timed[-1].requested_bytes if self.timed else 0

    def _settle(self) -> Optional[float]:
        """Return until when to listen once the outcome is known; None while it is open."""
        if any(rank.error for rank in self._group.ranks):
            return time.monotonic() + ECHO_S
        if all(rank.done for rank in self._group.ranks):
            return time.monotonic() + (0.0 if self._stays else EXIT_S)
        return None

    @property
    def code(self) -> str:
        """The code of the first error of a rank; empty where none told one."""
        first = self._first_error()
        return first.error_code if first else ""

    @property
    def aborted(self) -> bool:
        """Whether the rank that ended without a word was aborted, by itself or its watchdog."""
        dead = self._dead()
        return dead is not None and dead.aborted

    def _first_error(self) -> Optional[RankProcess]:
        errors = [rank for rank in self._group.ranks if rank.error]
        return min(errors, key=lambda rank: rank.error_at, default=None)

    def _verdict(self) -> Tuple[str, str]:
        dead = self._dead()
        if dead is not None:
            wait_until(dead.ended, DEATH_S)
            return "failed", dead.death() or "rank %d ended without a word" % dead.rank
        first = self._first_error()
        if first is not None:
            return "failed", "rank %d: %s" % (first.rank, first.error)
        if all(rank.done for rank in self._group.ranks):
            return "done", ""
        return "hang", self._where()

    def _where(self) -> str:
        if not self.sizes:
            return "before the first size was finished"
        return "after %s was finished" % size_text(self.sizes[-1].size_bytes)

    def _dead(self) -> Optional[RankProcess]:
        """Return the first rank that ended without a word."""
        for rank in self._group.ranks:
            if rank.silent and not rank.done and not rank.error:
                return rank
        return None

    def _take(self, rank: RankProcess) -> None:
        for message in rank.read():
            kind = message["kind"]
            self._last_message = time.monotonic()
            if kind == "joined":
                self.library, rank.joined = message["library"], True
            elif kind == "started":
                rank.started = True
            elif kind == "size":
                self._add(message)
            elif kind == "done":
                rank.done, self.stop = True, message["stop"]
                self.largest = message.get("largest", 0)
            elif kind == "error":
                rank.error, rank.error_at = message["reason"], message["at"]
                rank.error_code = message["code"]
            elif kind != "alive":
                self.others.append(message)

    def _add(self, message: Dict[str, Any]) -> None:
        size_bytes, in_place = message["size_bytes"], message.get("in_place", False)
        parts = self._parts.setdefault((size_bytes, in_place), [])
        parts.append(message)
        if len(parts) < len(self._group.ranks):
            return
        times = [part["times_us"] for part in parts]
        wrong = sum(part["wrong"] for part in parts)
        took_s = max(part.get("took_s", 0.0) for part in parts)
        requested_bytes = message.get("requested_bytes", size_bytes)
        self.timed.append(
            TimedSize(requested_bytes, size_bytes, in_place, slowest(times), wrong, took_s)
        )
        timing = summarize(size_bytes, times, self._factor, wrong)
        if in_place:
            self.sizes[-1] = replace(self.sizes[-1], in_place=timing)
            return
        self.sizes.append(timing)
        self._on_size(timing)
