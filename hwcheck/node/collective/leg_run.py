"""The ranks of one leg: they are started once, take turns with those of other legs, and end."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Callable, List, Mapping, Optional, Tuple

from hwcheck.node import json_lines
from hwcheck.node.collective import rank as rank_body
from hwcheck.node.collective import stacks
from hwcheck.node.collective.log import Log
from hwcheck.node.collective.rank import Turn
from hwcheck.node.collective.ranks import RankGroup, wait_until
from hwcheck.node.collective.spec import CollectiveSpec, LegPlan, rank_environment
from hwcheck.node.collective.watch import Timed, Watch
from hwcheck.node.json_lines import Send
from hwcheck.node.wire import SizeTiming

EXIT_S = 2.0


@dataclass(frozen=True)
class Taken:
    """What came of a turn; ``state`` is done, failed, hang, or late: it went on beyond its time.

    ``log`` is what the leg has printed, ``turn_log`` what it printed in this turn.
    """

    state: str
    reason: str
    timed: List[Timed]
    library: str
    stop: str
    largest: int
    tail: str
    left_over: List[str]
    log: str
    duration_s: float
    turn_log: str = ""


class LegRun:
    """The processes of one leg, from its first turn on; one that breaks in a turn starts anew.

    ``close_fds`` are the launcher's own, which no rank may keep.
    """

    def __init__(self, spec: CollectiveSpec, plan: LegPlan, close_fds: List[int]) -> None:
        self.plan = plan
        self._spec = spec
        self._close_fds = close_fds
        self._open: Optional[ExitStack] = None
        self._log: Log
        self._group: RankGroup
        self._turn_fds: List[int] = []
        self._library = ""

    def take(
        self,
        turn: Turn,
        busbw_factor: float,
        on_size: Callable[[SizeTiming], None],
    ) -> Taken:
        """Have the ranks take a turn, and end them where it does not end well."""
        start = time.monotonic()
        printed = 0  # ranks that are forked now may speak before they are told anything
        if self._open is None:
            self._start()
        else:
            printed = self._log.size()
        watch = Watch(self._group, busbw_factor, on_size, stays=True)
        self._tell(turn.to_dict())
        sizes = turn.sizes or (self._spec.min_bytes,)
        state, reason = watch.until(
            start + turn.bounds.limit_s,
            lambda: self._spec.silence_s(max(*sizes, watch.at() * self._spec.step_factor)),
        )
        if state in ("hang", "late"):
            words = "killed after" if state == "hang" else "data still moved after"
            reason = "%s %.0f s, %s" % (words, turn.bounds.limit_s, reason)
        self._library = watch.library or self._library
        log, turn_log = self._log.whole(), self._log.whole(printed)
        tail, left_over = self.end(state) if state != "done" else ("", [])
        return Taken(
            state,
            reason,
            watch.timed,
            self._library,
            watch.stop,
            watch.largest or watch.at(),
            tail,
            left_over,
            log,
            time.monotonic() - start,
            turn_log,
        )

    def _start(self) -> None:
        with ExitStack() as stack:
            self._log = stack.enter_context(Log())
            store = stack.enter_context(tempfile.TemporaryFile())
            self._group = stack.enter_context(RankGroup())
            self._turn_fds = []
            for rank in range(self._spec.ranks):
                reader, writer = os.pipe()
                self._turn_fds.append(writer)
                stack.callback(os.close, writer)
                env = rank_environment(self._spec, self.plan, rank, os.environ)
                body = self._body(rank, store.fileno(), reader)
                shut = [*self._close_fds, *self._turn_fds]
                self._group.fork(rank, body, env, self._log.fd, shut)
                os.close(reader)
            self._open = stack.pop_all()

    def _body(self, rank: int, store_fd: int, turns_fd: int) -> Callable[[Send], None]:
        return lambda send: rank_body.run_rank(self._spec, rank, store_fd, turns_fd, send)

    def _tell(self, message: Mapping[str, Any]) -> None:
        """Write a turn to every rank, or nothing: that is the end."""
        for rank, fd in enumerate(self._turn_fds):
            try:
                json_lines.write(fd, message)
            except BrokenPipeError:  # the watch sees it as well, and why
                sys.stderr.write("rank %d is not there any more\n" % rank)

    def end(self, state: str = "done") -> Tuple[str, List[str]]:
        """End the leg's processes; return the log's tail and notes about what could not be ended.

        The whole log goes to stderr, and from there into the host's log: what NCCL said about its
        transports is evidence.
        """
        if self._open is None:
            return "", []
        with self._open:
            self._open = None
            if state == "done":
                self._tell({})
                wait_until(lambda: not self._group.alive(), EXIT_S)
            tail = ""
            segments = stacks.shared_segments(self._group)
            if state == "hang":
                tail = stacks.tail_with_stacks(self._group, self._log, bool(self._spec.gpus))
            stuck = self._group.kill()
            left_over = stacks.remove(segments)
            for rank in stuck:
                words = (rank.rank, rank.pid)
                left_over.append("rank %d (pid %d) does not die: it is stuck in the kernel" % words)
            if state == "failed":
                tail = self._log.tail()
            sys.stderr.write("-- log of leg %s\n%s" % (self.plan.name, self._log.read()))
            sys.stderr.flush()
        return tail, left_over
