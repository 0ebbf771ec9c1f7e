"""Keep the ranks of a launch over its orders: fork them, watch them, say what became of each."""

from __future__ import annotations

import os
import time
from functools import partial
from typing import Any, Dict, Iterable, List, Mapping, Tuple

from hwcheck.contract.collective_spec import CollectiveSpec, LegPlan, rank_environment
from hwcheck.contract.reasons import OUT_OF_MEMORY, Reason
from hwcheck.contract.wire import to_dict
from hwcheck.node.collective import nccl_info, proof
from hwcheck.node.collective.held_ranks import HeldRanks
from hwcheck.node.collective.ranks import RankGroup
from hwcheck.node.collective.watch import LOOK_S, Watch
from hwcheck.node.json_lines import Message, Send
from hwcheck.node.training import rank as rank_body
from hwcheck.node.training import strategies
from hwcheck.node.training.order import TrainingOrder

NVLS = "NCCL_NVLS_ENABLE"


def serve(
    setup: Mapping[str, Any], orders: Iterable[Message], send: Send, close_fds: List[int]
) -> None:
    """Answer every order; ``close_fds`` are the launcher's own, which no rank may keep.

    The ranks of one world stay while its legs take turns, so that a repetition costs no start.
    """
    launches: Dict[str, Launch] = {}
    try:
        for message in orders:
            order = TrainingOrder.from_dict(message)
            for name in [name for name, each in launches.items() if each.is_over(order)]:
                launches.pop(name).end()
            if order.launch not in launches:
                launches[order.launch] = Launch(order, setup, close_fds)
            answer = launches[order.launch].take(order)
            if answer["state"] != "done":
                del launches[order.launch]
            send(answer)
    finally:
        for launch in launches.values():
            launch.end()


class Launch:
    """The ranks of one launch on this host, from their fork to their end."""

    def __init__(
        self, order: TrainingOrder, setup: Mapping[str, Any], close_fds: List[int]
    ) -> None:
        here = order.devices
        self._first = order
        self._gpus = setup["gpus"]
        spec = CollectiveSpec(
            collectives=(),
            ranks=len(here),
            gpus=setup["gpus"],
            budget_s=order.deadline_s,
            memory_available_bytes=setup["memory_bytes"],
            one_gpu=len(set(here)) < len(here) and bool(setup["gpus"]),
        )
        interface = setup["interface"]
        env = {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": "=" + interface}
        # That NVLS is off shows in what NCCL took; before 2.17 it knows nothing of it.
        asked = {name: value for name, value in order.env.items() if name != NVLS}
        self._leg = LegPlan(order.leg, asked)
        plan = LegPlan(order.leg, {**env, **order.env})
        ranks = []
        for index in range(len(here)):
            rank = order.rank0 + index
            environment = rank_environment(spec, plan, rank, os.environ)
            ranks.append((rank, partial(rank_body.run_rank, order, spec, index), environment))
        self._ranks = HeldRanks(ranks, close_fds, recorded=bool(self._gpus))

    def is_over(self, order: TrainingOrder) -> bool:
        """Whether an order shows that this launch has no further one: its world is over."""
        first = self._first
        if order.world != first.world:
            return 1 not in (order.world, first.world)  # one GPU by itself has its turns as well
        return order.leg == first.leg and order.launch != first.launch

    def take(self, order: TrainingOrder) -> Dict[str, Any]:
        """Have the ranks carry out an order; return the answer. What does not end well is ended."""
        start = time.monotonic()
        watch = StepWatch(self._ranks.group)
        self._ranks.tell(order.to_dict())
        state, reason = watch.run(order)
        aborted = watch.aborted
        at = "after %.0f s, " % (time.monotonic() - start) if state == "hang" else ""
        text = self._ranks.log.whole()
        tail, left_over = ("", []) if state == "done" else self.end(state)
        transport, unproven = self._proven(order, text) if state == "done" else ({}, "")
        if state == "failed" and watch.code == OUT_OF_MEMORY:
            name = rank_body.OutOfMemory.__name__ + ": "  # of no use to a reader
            state, reason = "out_of_memory", reason.replace(name, "", 1)
        return {
            "id": order.id,
            "state": state,
            "reason": (at + reason)[:4000],
            "aborted": aborted,
            "unproven": unproven,
            "library": watch.library,
            "transport": transport,
            "losses": watch.losses,
            "repeats": watch.repeats(),
            "peak_bytes": watch.peaks(),
            "left_over": [to_dict(reason) for reason in left_over],
            "log_tail": tail,
            "duration_s": time.monotonic() - start,
        }

    def _proven(self, order: TrainingOrder, text: str) -> Tuple[Dict[str, Any], str]:
        """Hold what NCCL said of its way against the leg."""
        if not self._gpus or order.world < 2 or strategies.load(order.strategy).one_process:
            return {}, ""
        info = nccl_info.read(text)
        one_gpu = len(set(order.devices)) < len(order.devices)
        return proof.facts(info), proof.problem(self._leg, info, read_env=not one_gpu).text

    def end(self, state: str = "done") -> Tuple[str, List[Reason]]:
        """End the ranks; return the tail of their log and a line for each thing that stays."""
        title = "log of launch %s" % self._first.launch
        return self._ranks.end(state, title if state != "done" else "")


class StepWatch(Watch):
    """Puts together what the ranks of one order send; silence is a hang."""

    def __init__(self, group: RankGroup) -> None:
        super().__init__(group, 1.0, lambda _: None, stays=True)

    def run(self, order: TrainingOrder) -> Tuple[str, str]:
        """Return the state (done, failed, hang) and the reason.

        Until the first step of every rank ``start_s`` of silence are borne, then ``silence_s``.
        """
        end = time.monotonic() + order.deadline_s
        while True:
            settled = self._settle()
            if settled is not None:
                return self.until(settled)
            if self._dead() is not None:
                return self._verdict()
            if time.monotonic() > end:
                return "hang", "still training after %.0f s" % order.deadline_s
            bound_s = order.silence_s if self._start_is_over() else order.start_s
            if time.monotonic() - self._last_message > bound_s:
                return "hang", self._where()
            self._listen(LOOK_S)

    def _where(self) -> str:
        silent = [rank for rank in self._group.ranks if not rank.done]
        names = ", ".join(str(rank.rank) for rank in silent[:8])
        if not all(rank.joined for rank in silent):
            return "rank %s: before all had met" % names
        if not all(rank.started for rank in silent):
            return "rank %s: in the first step" % names
        return "rank %s: silent after the first step" % names

    @property
    def losses(self) -> List[Dict[str, Any]]:
        """Rank and losses of each rank that saw any."""
        parts = [each for each in self.others if each["kind"] == "parity" and each["losses"]]
        return [{"rank": each["rank"], "losses": each["losses"]} for each in parts]

    def repeats(self) -> List[Dict[str, Any]]:
        """Return of each repetition the slowest rank's time of every step, and when it was."""
        by_rank: Dict[int, List[Message]] = {}
        for each in self.others:
            if each["kind"] == "timed":
                by_rank.setdefault(each["rank"], []).append(each)
        if len(by_rank) < len(self._group.ranks):
            return []
        return [
            {
                "times_s": [max(step) for step in zip(*(part["times_s"] for part in parts))],
                "begin_s": min(part["begin_s"] for part in parts),
                "end_s": max(part["end_s"] for part in parts),
            }
            for parts in zip(*by_rank.values())
        ]

    def peaks(self) -> List[int]:
        """Return the peak of memory of each rank of this host, in their order."""
        peaks: Dict[int, int] = {}
        for each in self.others:
            if each["kind"] == "timed":
                peaks[each["rank"]] = max(peaks.get(each["rank"], 0), each["peak_bytes"])
        return [peaks[rank] for rank in sorted(peaks)]
