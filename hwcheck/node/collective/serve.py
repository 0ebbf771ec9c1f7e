"""Run the collectives under every leg, in turns, and send a Leg as soon as its last one is over."""

from __future__ import annotations

import os
from contextlib import ExitStack
from typing import Callable, List, Mapping, Sequence, Tuple

from hwcheck.contract.collective_spec import (
    NOISE,
    CollectiveSpec,
    LegPlan,
    size_text,
)
from hwcheck.contract.reasons import GPU_EXCLUSIVE
from hwcheck.contract.wire import SizeTiming, to_dict
from hwcheck.node.collective.hangs import ENDED, Hangs
from hwcheck.node.collective.leg_run import LegRun, Taken
from hwcheck.node.collective.operations import Operation
from hwcheck.node.collective.rank import Bounds, Turn
from hwcheck.node.collective.schedule import take_turns
from hwcheck.node.collective.unit import CollectiveUnit
from hwcheck.node.json_lines import Send


def serve(
    spec: CollectiveSpec,
    operations: Sequence[Operation],
    send: Send,
    close_fds: List[int],
    hangs: Hangs,
) -> None:
    """Run every leg of ``spec``; ``close_fds`` are the launcher's own, which no rank may keep.

    ``hangs`` knows which leg has no further turn.
    """
    with ExitStack() as stack:
        runs = {plan.name: LegRun(spec, plan, close_fds) for plan in spec.legs}
        for run in runs.values():
            stack.callback(run.end)
        ranks = Ranks(runs, send, hangs)
        collectives = [
            [RankedLeg(spec, operation, plan, ranks) for plan in spec.legs]
            for operation in operations
        ]
        of_every_leg = notes(spec)
        for leg in take_turns(collectives, spec.budget_s, spec.turns, spec.max_bytes, hangs):
            send({"kind": "leg", "leg": to_dict(leg.leg(of_every_leg))})


class RankedLeg(CollectiveUnit):
    """A ``schedule.TimedLeg`` that our own ranks time."""

    def __init__(
        self, spec: CollectiveSpec, chosen: Operation, plan: LegPlan, ranks: Ranks
    ) -> None:
        super().__init__(spec, chosen, plan)
        self._ranks = ranks
        refusal = plan.absent or chosen.refuses(spec.ranks, spec.dtype)
        if refusal:
            self.refuse(refusal)

    def first(self, share_s: float, max_bytes: int, max_bytes_reason: str) -> float:
        limit_s = share_s + self._spec.grace_s
        bounds = Bounds(share_s, limit_s, max_bytes, max_bytes_reason)
        took = self._ranks.take_turn(self, bounds, ())
        return took.duration_s - took.start_s

    def repeat(self) -> None:
        limit_s = self.repeat_s() * NOISE + self._spec.grace_s
        self._ranks.take_turn(self, Bounds(0.0, limit_s, 0), self.compared)


class Ranks:
    """The ranks of all legs, one turn of one leg at a time."""

    def __init__(self, runs: Mapping[str, LegRun], send: Send, hangs: Hangs) -> None:
        self._runs = runs
        self._send = send
        self._hangs = hangs
        self._number = 0
        self._one_at_a_time = False

    def take_turn(self, unit: CollectiveUnit, bounds: Bounds, sizes: Tuple[int, ...]) -> Taken:
        """Time ``sizes``, or without any as far as the bounds allow, and add it to the unit."""

        def on_size(timing: SizeTiming) -> None:
            size = size_text(timing.size_bytes)
            words = (unit.chosen.name, unit.plan.name, size, timing.busbw_gbps)
            self._send({"kind": "progress", "text": "%s %s %s %.1f GB/s" % words})

        self._number += 1
        turn = Turn(self._number, unit.chosen.name, bounds, sizes)
        run = self._runs[unit.plan.name]
        took = self._taken(run, unit, turn, on_size)
        # A GPU in exclusive mode takes one process, and another leg's rank waits on it.
        if took.code == GPU_EXCLUSIVE and not self._one_at_a_time:
            self._one_at_a_time = True
            self._end_all()
            took = self._taken(run, unit, turn, on_size)
        if took.state == "failed" and not sizes and run.second_try(took.reason):
            took = self._taken(run, unit, turn, on_size)
        if self._one_at_a_time:
            self._end_all()
        unit.add(took)
        if took.state in ENDED:
            unit.driver = self._hangs.add(unit.chosen.name, unit.plan.name, took.state)
        return took

    def _taken(
        self, run: LegRun, unit: CollectiveUnit, turn: Turn, on_size: Callable[[SizeTiming], None]
    ) -> Taken:
        """Have a leg take a turn, and say what it came to: who listens waits for one turn."""
        took = run.take(turn, unit.factor, on_size)
        if took.state != "done":
            words = (unit.chosen.name, unit.plan.name, took.state)
            self._send({"kind": "progress", "text": "%s %s: %s" % words})
        return took

    def _end_all(self) -> None:
        """End the ranks of all legs; their next turns start others."""
        for run in self._runs.values():
            run.end()


def notes(spec: CollectiveSpec) -> Tuple[str, ...]:
    """Return what a reader must know about every leg."""
    lines = []
    if not spec.gpus:
        lines.append("gloo on the CPU: this exercises the path and says nothing about GPUs")
    if spec.ranks == 1:
        lines.append("one rank: nothing is sent, busbw is 0 by arithmetic")
    if spec.one_gpu:
        lines.append("all ranks share GPU 0: this exercises the path and measures no link")
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        lines.append("CUDA_VISIBLE_DEVICES is set on this node and was ignored")
    return tuple(lines)
