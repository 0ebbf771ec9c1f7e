"""One collective under one leg: what its turns gave, put together to one record."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Mapping, Optional, Tuple

from hwcheck.contract.busbw import busbw_factor
from hwcheck.contract.collective_spec import TOO_SMALL, CollectiveSpec, LegPlan
from hwcheck.contract.reasons import NONE, NOT_OFFERED, OUT_OF_BUDGET
from hwcheck.contract.wire import Leg, SizeTiming, Value, leg_reason
from hwcheck.node.collective import conf_files, nccl_info, proof
from hwcheck.node.collective.leg_run import Taken
from hwcheck.node.collective.operations import Operation
from hwcheck.node.collective.rank import LARGEST_MEASURED
from hwcheck.node.collective.timing import merge
from hwcheck.node.collective.watch import TimedSize

LATE = "; take a smaller -b or -n, or a longer profile"


class CollectiveUnit:
    """The turns of one collective under one leg.

    ``largest`` is the largest size of its first turn, and ``complete`` whether that was all it was
    to time; ``compared`` are the sizes to time again; ``driver`` is what the driver did after a
    hang.
    """

    def __init__(self, spec: CollectiveSpec, chosen: Operation, plan: LegPlan) -> None:
        self.chosen = chosen
        self.plan = plan
        self.factor = busbw_factor(chosen.name, spec.ranks)
        self.state = ""
        self.driver = ""
        self.largest = 0
        self.complete = False
        self.compared: Tuple[int, ...] = ()
        self._spec = spec
        self._reason = NONE
        self._timed: Dict[Tuple[int, bool], List[TimedSize]] = {}
        self._notes: List[str] = []
        self._tail = ""
        self._library = ""
        self._transport: Dict[str, Value] = {}
        self._duration_s = 0.0
        self._start_s: Optional[float] = None
        self._env: Mapping[str, str] = plan.env
        self._first_failure = ""

    def refuse(self, reason: str) -> None:
        """Say why there is no turn."""
        self.state, self._reason = "not_run", leg_reason("not_run", reason)

    def add(self, took: Taken) -> None:
        """Take what came of a turn."""
        first = not self.state
        if first:
            self._start_s = took.start_s
            self._env = {**self.plan.env, **took.more_env}
            self._first_failure = took.first_failure
        self._tail = took.tail
        self._library = took.library
        self._duration_s += took.duration_s
        self._notes += map(str, took.left_over)
        for each in took.timed:
            self._timed.setdefault((each.size_bytes, each.in_place), []).append(each)
        self.state, text = self._outcome(took)
        code = OUT_OF_BUDGET if took.state == "late" else took.code
        self._reason = leg_reason(self.state, text, code)
        if took.state == "late" and self._timed:
            self._notes.append(took.reason)
        if not first:
            return
        self.largest = took.largest
        self.complete = took.stop == LARGEST_MEASURED
        if self._timed and took.stop and took.stop != LARGEST_MEASURED:
            self._notes.append(took.stop)
        if self._spec.gpus:
            self._prove(nccl_info.read(took.log), nccl_info.read(took.turn_log))

    def _outcome(self, took: Taken) -> Tuple[str, str]:
        if took.state in ("done", "late") and self._timed:
            return "done", ""
        if took.state == "late":
            return "not_run", took.reason + LATE
        if took.state == "done":
            return "not_run", TOO_SMALL if took.stop == LARGEST_MEASURED else took.stop
        lacks = not self._spec.gpus and took.code == NOT_OFFERED
        return "not_run" if lacks else took.state, took.reason

    def _prove(self, whole: nccl_info.NcclInfo, turn: nccl_info.NcclInfo) -> None:
        """Hold what NCCL said in the turn against the leg.

        A collective may use what an earlier one has connected, and chooses its own algorithm.
        """
        ways = turn if turn.transports else whole
        info = replace(
            whole, transports=ways.transports, gdrdma=ways.gdrdma, algorithms=turn.algorithms
        )
        self._transport = proof.facts(info)
        if self.state != "done" or self._spec.ranks < 2:
            return
        problem = proof.problem(self.plan, info, read_env=not self._spec.one_gpu)
        if problem:
            self.state, self._reason = "not_engaged", problem
        self._notes += proof.notes(self.plan, info)

    def repeat_s(self) -> float:
        """Return how long the sizes to time again take."""
        last = [turns[-1] for turns in self._timed.values()]
        return sum(each.took_s for each in last if each.requested_bytes in self.compared)

    def leg(self, notes: Tuple[str, ...]) -> Leg:
        """Return the record; ``notes`` are those of every leg."""
        spec = self._spec
        of_files = conf_files.notes(self._library) if spec.gpus else ()
        return Leg(
            collective=self.chosen.name,
            leg=self.plan.name,
            backend=spec.backend,
            ranks=spec.ranks,
            state=self.state,
            reason=self._reason,
            exercise=not spec.gpus,
            library=self._library,
            env=self._env,
            sizes=tuple(self._sizes()),
            notes=(*notes, *of_files, *self._notes),
            log_tail=self._tail,
            duration_s=self._duration_s,
            dtype=spec.dtype,
            transport=self._transport,
            driver=self.driver,
            start_s=self._start_s,
            first_failure=self._first_failure,
        )

    def _sizes(self) -> List[SizeTiming]:
        sizes = sorted(size for size, in_place in self._timed if not in_place)
        merged = []
        for size in sizes:
            main = self._merged(size, False)
            other = self._merged(size, True) if (size, True) in self._timed else None
            merged.append(replace(main, in_place=other))
        return merged

    def _merged(self, size: int, in_place: bool) -> SizeTiming:
        turns = self._timed[size, in_place]
        passes = [each.times_us for each in turns]
        # The worst turn: three would otherwise count one bad element three times.
        return merge(size, passes, self.factor, max(each.wrong for each in turns))
