"""The ranks of one leg: they are started once, take turns with those of other legs, and end."""

from __future__ import annotations

import os
import tempfile
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Callable, List, Mapping, Optional, Tuple

from hwcheck.contract.collective_spec import (
    SECOND_TRY,
    CollectiveSpec,
    LegPlan,
    rank_environment,
)
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import SizeTiming
from hwcheck.node.collective import rank as rank_body
from hwcheck.node.collective.held_ranks import HeldRanks
from hwcheck.node.collective.log import Log
from hwcheck.node.collective.nccl_info import INIT_COMPLETE
from hwcheck.node.collective.rank import Turn
from hwcheck.node.collective.watch import TimedSize, Watch

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
    its ``first_failure``. ``code`` is that of the error that ended a rank.
    """

    state: str
    reason: str
    timed: List[TimedSize]
    library: str
    stop: str
    largest: int
    tail: str
    left_over: List[Reason]
    log: str
    duration_s: float
    turn_log: str = ""
    start_s: float = 0.0
    more_env: Mapping[str, str] = field(default_factory=dict)
    first_failure: str = ""
    code: str = ""


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
        self._ranks: Optional[HeldRanks] = None
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
        ranks = self._ranks
        if ranks is None:
            ranks = self._ranks = self._start()
        else:
            printed = ranks.log.size()
        watch = Watch(ranks.group, busbw_factor, on_size, stays=True)
        ranks.tell(turn.to_dict())
        sizes = turn.sizes or (self._spec.min_bytes,)
        state, reason = watch.until_started(
            self._spec.start_s,
            self._spec.first_run_s(sizes[0]),
            lambda: self._look_for_communicator(ranks.log, watch),
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
        log, turn_log = ranks.log.whole(), ranks.log.whole(printed)
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
            watch.code,
        )

    def _look_for_communicator(self, log: Log, watch: Watch) -> bool:
        """Whether every rank has a communicator. Torch has NCCL make it at the first collective."""
        if not self._has_communicator:
            ranks, nccl = self._spec.ranks, bool(self._spec.gpus)
            self._has_communicator = (
                log.whole().count(INIT_COMPLETE) >= ranks if nccl else watch.joined
            )
        return self._has_communicator

    def _start(self) -> HeldRanks:
        self._has_communicator = False
        plan = replace(self.plan, env={**self.plan.env, **self._more_env})
        with tempfile.TemporaryFile() as store:  # the ranks keep it open
            ranks = []
            for rank in range(self._spec.ranks):
                env = rank_environment(self._spec, plan, rank, os.environ)
                body = partial(rank_body.run_rank, self._spec, rank, store.fileno())
                ranks.append((rank, body, env))
            return HeldRanks(ranks, self._close_fds, recorded=bool(self._spec.gpus))

    def end(self, state: str = "done") -> Tuple[str, List[Reason]]:
        """End the ranks; return the tail of their log and a line for each thing that stays."""
        ranks, self._ranks = self._ranks, None
        return ranks.end(state, "log of leg %s" % self.plan.name) if ranks else ("", [])
