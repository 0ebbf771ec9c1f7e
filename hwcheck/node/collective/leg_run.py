"""The ranks of one leg: they are started once, take turns with those of other legs, and end."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Any, Callable, List, Mapping, Optional, Tuple

from hwcheck.node import json_lines
from hwcheck.node.collective import rank as rank_body
from hwcheck.node.collective import stacks
from hwcheck.node.collective.log import Log
from hwcheck.node.collective.nccl_info import INIT_COMPLETE
from hwcheck.node.collective.rank import Turn
from hwcheck.node.collective.ranks import RankGroup, wait_until
from hwcheck.node.collective.spec import (
    SECOND_TRY,
    CollectiveSpec,
    LegPlan,
    rank_environment,
)
from hwcheck.node.collective.watch import TimedSize, Watch
from hwcheck.node.json_lines import Send
from hwcheck.node.wire import SizeTiming

EXIT_S = 10.0
ENDINGS = {
    "hang": "killed after",
    "not_started": "no communicator after",
    "late": "data still moved after",
}


@dataclass(frozen=True)
class Taken:
    """What came of a turn.

    ``state`` is done, failed, hang, not_started, or late: it went on beyond its time. ``log`` is
    what the leg has printed, ``turn_log`` what it printed in this turn. Of ``duration_s`` the first
    ``start_s`` went before the first verified run. In a second try the leg had ``more_env``, for
    its ``first_failure``.
    """

    state: str
    reason: str
    timed: List[TimedSize]
    library: str
    stop: str
    largest: int
    tail: str
    left_over: List[str]
    log: str
    duration_s: float
    turn_log: str = ""
    start_s: float = 0.0
    more_env: Mapping[str, str] = field(default_factory=dict)
    first_failure: str = ""


class LegRun:
    """The processes of one leg, from its first turn on; one that breaks in a turn starts anew.

    ``close_fds`` are the launcher's own, which no rank may keep.
    """

    def __init__(self, spec: CollectiveSpec, plan: LegPlan, close_fds: List[int]) -> None:
        self.plan = plan
        self._more_env: Mapping[str, str] = {}
        self._first_failure = ""
        self._spec = spec
        self._close_fds = close_fds
        self._open: Optional[ExitStack] = None
        self._log: Log
        self._group: RankGroup
        self._turn_fds: List[int] = []
        self._library = ""
        self._has_communicator = False

    def second_try(self, reason: str) -> bool:
        """Take the variables of a second try, after it failed for this reason; whether it has any.

        It keeps them for the rest of the visit.
        """
        more = SECOND_TRY.get(self.plan.name)
        if not more or self._first_failure or not self._spec.gpus:
            return False
        self._more_env, self._first_failure = more, reason
        return True

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
        state, reason = watch.until_started(
            self._spec.start_s,
            self._spec.first_run_s(sizes[0]),
            lambda: self._look_for_communicator(watch),
        )
        start_s = time.monotonic() - start
        if not state:
            state, reason = watch.until(
                start + start_s + turn.bounds.limit_s,
                lambda: self._spec.silence_s(max(*sizes, watch.at() * self._spec.step_factor)),
            )
        if state in ENDINGS:
            reason = "%s %.0f s, %s" % (ENDINGS[state], time.monotonic() - start, reason)
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
            start_s,
            self._more_env,
            self._first_failure,
        )

    def _look_for_communicator(self, watch: Watch) -> bool:
        """Whether every rank has a communicator. Torch has NCCL make it at the first collective."""
        if not self._has_communicator:
            ranks, nccl = self._spec.ranks, bool(self._spec.gpus)
            self._has_communicator = (
                self._log.whole().count(INIT_COMPLETE) >= ranks if nccl else watch.joined
            )
        return self._has_communicator

    def _start(self) -> None:
        self._has_communicator = False
        with ExitStack() as stack:
            self._log = stack.enter_context(Log())
            store = stack.enter_context(tempfile.TemporaryFile())
            self._group = stack.enter_context(RankGroup())
            self._turn_fds = []
            plan = replace(self.plan, env={**self.plan.env, **self._more_env})
            for rank in range(self._spec.ranks):
                reader, writer = os.pipe()
                self._turn_fds.append(writer)
                stack.callback(os.close, writer)
                env = rank_environment(self._spec, plan, rank, os.environ)
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
            if state in ("hang", "not_started"):
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
