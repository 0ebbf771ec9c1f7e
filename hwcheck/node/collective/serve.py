"""Run the collectives under every leg, in turns, and send a Leg as soon as its last one is over."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from typing import Any, Callable, Dict, List, Sequence, Tuple

from hwcheck.node.collective.hangs import Hangs
from hwcheck.node.collective.leg_run import LegRun, Taken
from hwcheck.node.collective.operations import Operation
from hwcheck.node.collective.rank import LARGEST_MEASURED, NOISE, Bounds, Turn
from hwcheck.node.collective.spec import SYSTEM_CONF, SYSTEM_CONF_NOTE, Spec, size_text
from hwcheck.node.collective.unit import Unit
from hwcheck.node.wire import SizeTiming, to_dict

# Of cudaErrorDevicesUnavailable: a GPU in exclusive mode takes one process, and another leg's rank
# waits on it.
BUSY = "busy or unavailable"

LEAST_SHARE = 0.5  # of the budget is left for the legs, however long torch took to import
FIRST_SHARE = 0.6  # of that is for the first turns; the rest is for the repetitions

Send = Callable[[Dict[str, Any]], None]


def serve(
    spec: Spec,
    operations: Sequence[Operation],
    send: Send,
    import_s: float,
    close_fds: List[int],
    hangs: Hangs,
) -> None:
    """Run every leg of ``spec``; ``close_fds`` are the launcher's own, which no rank may keep.

    Each collective goes through the legs in turn, up to the sizes that time and memory allow. Then
    the sizes at which legs are compared are timed again, once more in turn, so that what drifts
    meanwhile does not decide. ``hangs`` says which leg has no further turn.
    """
    left_s = max(spec.budget_s - import_s, spec.budget_s * LEAST_SHARE)
    with ExitStack() as stack:
        runs = {plan.name: LegRun(spec, plan, close_fds) for plan in spec.legs}
        for run in runs.values():
            stack.callback(run.end)
        rounds = Rounds(spec, runs, send, hangs)
        units: List[List[Unit]] = []
        for chosen in operations:
            mine = [Unit(spec, chosen, plan) for plan in spec.legs]
            for unit in mine:
                refused = unit.plan.absent or chosen.refuses(spec.ranks, spec.dtype)
                if refused:
                    unit.refuse(refused)
                    rounds.tell(unit)
            units.append([unit for unit in mine if not unit.state])
        left_s = rounds.first(units, left_s)
        rounds.again([unit for each in units for unit in each if unit.goes_on], left_s)


class Rounds:
    """The turns of all legs."""

    def __init__(self, spec: Spec, runs: Dict[str, LegRun], send: Send, hangs: Hangs) -> None:
        self._spec = spec
        self._runs = runs
        self._send = send
        self._hangs = hangs
        self._notes = notes(spec)
        self._number = 0
        self._one_at_a_time = False

    def tell(self, unit: Unit) -> None:
        """Send what a leg of a collective came to."""
        self._send({"kind": "leg", "leg": to_dict(unit.leg(self._notes))})

    def first(self, collectives: Sequence[Sequence[Unit]], left_s: float) -> float:
        """Take every leg's first turn; return the seconds that are left.

        A turn gets an equal share of what is left for the first ones. What a killed leg took beyond
        its share is not taken from the others. No leg goes beyond the largest size of the first
        that was done, so that they can be compared.
        """
        first_s = left_s * (FIRST_SHARE if self._spec.turns > 1 else 1.0)
        to_go = sum(len(units) for units in collectives)
        for units in collectives:
            largest, why, bound = self._spec.max_bytes, "", False
            for unit in units:
                share_s = first_s / to_go
                to_go -= 1
                refused = self._hangs.refuses(unit.plan.name)
                if refused:
                    unit.refuse(refused)
                    continue
                limit_s = share_s + self._spec.grace_s
                bounds = Bounds(time.monotonic() + share_s, limit_s, largest, why)
                took = self._turn(unit, bounds)
                spent_s = min(share_s, took.duration_s)
                first_s, left_s = first_s - spent_s, left_s - spent_s
                if unit.state == "done" and not bound:
                    largest, name, bound = took.largest, unit.plan.name, True
                    if took.stop != LARGEST_MEASURED:
                        words = (size_text(largest), name)
                        why = "stopped at %s, the largest size of leg %s" % words
            compared = {unit.largest for unit in units if unit.state == "done"}
            for unit in units:
                unit.again = tuple(sorted(s for s in compared if s <= unit.largest))
                if not unit.goes_on:
                    self.tell(unit)
        return left_s

    def again(self, units: Sequence[Unit], left_s: float) -> None:
        """Time again what is compared, as often as told and as the budget allows."""
        end = time.monotonic() + left_s
        for _ in range(self._spec.turns - 1):
            going = [unit for unit in units if self._goes_on(unit)]
            if sum(unit.takes_s() for unit in going) * NOISE > end - time.monotonic():
                break
            for unit in going:
                if not self._goes_on(unit):  # a turn of this round hung
                    continue
                limit_s = unit.takes_s() * NOISE + self._spec.grace_s
                self._turn(unit, Bounds(0.0, limit_s, 0), unit.again)
                if not unit.goes_on:
                    self.tell(unit)
        for unit in units:
            if unit.goes_on:
                self.tell(unit)

    def _goes_on(self, unit: Unit) -> bool:
        return unit.goes_on and not self._hangs.refuses(unit.plan.name)

    def _turn(self, unit: Unit, bounds: Bounds, sizes: Tuple[int, ...] = ()) -> Taken:
        def on_size(timing: SizeTiming) -> None:
            size = size_text(timing.size_bytes)
            words = (unit.chosen.name, unit.plan.name, size, timing.busbw_gbps)
            self._send({"kind": "progress", "text": "%s %s %s %.1f GB/s" % words})

        self._number += 1
        turn = Turn(self._number, unit.chosen.name, bounds, sizes)
        run = self._runs[unit.plan.name]
        took = run.take(turn, unit.factor, on_size)
        if BUSY in took.reason and not self._one_at_a_time:
            self._one_at_a_time = True
            self._end_all()
            took = run.take(turn, unit.factor, on_size)
        if self._one_at_a_time:
            self._end_all()
        if took.state != "done":  # a word for every turn: who listens waits for no more than one
            words = (unit.chosen.name, unit.plan.name, took.state)
            self._send({"kind": "progress", "text": "%s %s: %s" % words})
        unit.add(took)
        if took.state == "hang":
            unit.driver = self._hangs.add(unit.chosen.name, unit.plan.name)
        return took

    def _end_all(self) -> None:
        """End the ranks of all legs; their next turns start others."""
        for run in self._runs.values():
            run.end()


def notes(spec: Spec) -> Tuple[str, ...]:
    """Return what a reader must know about every leg."""
    found = []
    if not spec.gpus:
        found.append("gloo on the CPU: this exercises the path and says nothing about GPUs")
    if spec.ranks == 1:
        found.append("one rank: nothing is sent, busbw is 0 by arithmetic")
    if spec.one_gpu:
        found.append("all ranks share GPU 0: this exercises the path and measures no link")
    if os.environ.get("CUDA_VISIBLE_DEVICES"):
        found.append("CUDA_VISIBLE_DEVICES is set on this node and was ignored")
    if spec.gpus and _sets_something(SYSTEM_CONF):
        found.append(SYSTEM_CONF_NOTE)
    return tuple(found)


def _sets_something(conf: str) -> bool:
    """Whether NCCL takes a variable from this file; of one that cannot be read it may."""
    try:
        with open(conf, encoding="utf-8", errors="replace") as stream:
            return any("=" in line.partition("#")[0] for line in stream)
    except FileNotFoundError:
        return False
    except OSError:
        return True
