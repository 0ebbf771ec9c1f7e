"""Run the process that copies, put together what it sends, and end it when it stands still."""

from __future__ import annotations

import os
import select
import sys
import time
from dataclasses import replace
from typing import Any, Callable, Dict, List, Mapping, Sequence, Tuple

from hwcheck.contract.collective_spec import CollectiveSpec, LegPlan, rank_environment
from hwcheck.contract.pairs_run import CHECK_OFF, PairCopy, PairsRun, Round
from hwcheck.contract.reasons import HANG, NONE, NOT_MEASURED, Reason
from hwcheck.node.collective import stacks
from hwcheck.node.collective.hangs import Hangs
from hwcheck.node.collective.log import Log
from hwcheck.node.collective.ranks import RankGroup, RankProcess, wait_until
from hwcheck.node.json_lines import Send
from hwcheck.node.tournament import rounds

START_LIMIT_S = CollectiveSpec.start_s  # CUDA on every GPU, in one process
STEP_LIMIT_S = 20.0  # a pair takes a tenth of a second; through a slow host, some tenths
EXIT_S = 2.0
VALUE_LIMIT = 64
MOST_PEERS = 7  # what each of eight GPUs has, which every board can

Body = Callable[[Send], None]


def serve(spec: CollectiveSpec, send: Send, close_fds: List[int], hangs: Hangs) -> None:
    """Copy between all GPUs of ``spec``, in processes of their own, and send the record."""
    run = PairsRun()
    for met in shares(spec.gpus):
        share = watched(spec, _body(spec, met), send, close_fds)
        run = PairsRun(run.copies + share.copies, share.reason, share.hung)
        if run.reason:
            break
    if run.hung:
        killed = "the process that copies %s" % ", ".join(run.hung)
        run = replace(run, driver=hangs.ask(killed))
    run = replace(run, check_off=os.environ.get(CHECK_OFF, "")[:VALUE_LIMIT])
    send({"kind": "pairs", "pairs": run.to_dict()})


def shares(gpus: int) -> Sequence[Sequence[Round]]:
    """Return the rounds of each process, in which every GPU meets every other once.

    A GPU without NVSwitches can have eight peers at a time (CUDA C++ Programming Guide,
    "Peer-to-Peer Memory Access") and keeps them until the process ends: a tenth GPU gets "peer
    mapping resources exhausted".
    """
    every = rounds(range(gpus))
    return [every[at : at + MOST_PEERS] for at in range(0, len(every), MOST_PEERS)]


def _body(spec: CollectiveSpec, met: Sequence[Round]) -> Body:
    from hwcheck.node.pairs import copy

    return lambda send: copy.run(spec.gpus, send, met, spec.near_cpus)


def watched(
    spec: CollectiveSpec,
    body: Body,
    progress: Send,
    close_fds: List[int],
    start_s: float = START_LIMIT_S,
    step_s: float = STEP_LIMIT_S,
) -> PairsRun:
    """Run ``body``; it is killed when a step takes over ``step_s``, the first over ``start_s``."""
    env = rank_environment(spec, LegPlan("gpu_pairs", {}), 0, os.environ)
    with Log() as log, RankGroup() as group:
        group.fork(0, body, env, log.fd, close_fds)
        tally = CopyTally(group.ranks[0], progress)
        reason = tally.until_end(start_s, step_s)
        if tally.stood_still:
            sys.stderr.write(stacks.tail_with_stacks(group, log) + "\n")
        stuck = group.kill()
        sys.stderr.write("-- log of the copies between GPUs\n" + log.read())
        sys.stderr.flush()
    if stuck:
        reason += "; process %d does not die: it is stuck in the kernel" % stuck[0].pid
    code = HANG if tally.stood_still else NOT_MEASURED
    hung = tally.hung() if tally.stood_still else ()
    return PairsRun(tally.copies(), Reason(code, reason) if reason else NONE, hung)


class CopyTally:
    """What the process has sent so far."""

    def __init__(self, process: RankProcess, progress: Send) -> None:
        self.stood_still = False
        self._process = process
        self._progress = progress
        self._figures: Dict[Tuple[int, int], Dict[str, Any]] = {}
        self._doing: Mapping[str, Any] = {}
        self._done = False

    def until_end(self, start_s: float, step_s: float) -> str:
        """Return why it ended before it was done, or an empty text."""
        process, limit_s = self._process, start_s
        end = time.monotonic() + limit_s
        while not (self._done or process.error or process.silent):
            left_s = max(0.0, end - time.monotonic())
            if not select.select([process.pipe_fd], [], [], left_s)[0]:
                self.stood_still = True
                return "%s: killed after %.0f s without a word" % (self._what(), limit_s)
            for message in process.read():
                self._take(message)
                limit_s = step_s if "pairs" in self._doing else start_s
                end = time.monotonic() + limit_s
        if process.silent and not self._done and not process.error:
            wait_until(process.ended, EXIT_S)
            return "%s: the process %s" % (self._what(), process.ending() or "ended without a word")
        return "%s: %s" % (self._what(), process.error) if process.error else ""

    def hung(self) -> Tuple[str, ...]:
        """Return the pairs that were under way."""
        return tuple("gpu%d-gpu%d" % tuple(pair) for pair in self._doing.get("pairs", ()))

    def copies(self) -> Tuple[PairCopy, ...]:
        """Return what is known of each pair."""
        return tuple(PairCopy(*pair, **figures) for pair, figures in self._figures.items())

    def _what(self) -> str:
        return ", ".join(self.hung()) or self._doing.get("what", "the start")

    def _take(self, message: Dict[str, Any]) -> None:
        kind = message["kind"]
        if kind == "doing":
            self._doing = message
            self._progress({"kind": "progress", "text": "gpu_pairs %s" % self._what()})
        elif kind == "error":
            self._process.error = message["reason"]
        elif kind == "done":
            self._done = True
        else:
            self._add(message)

    def _add(self, message: Dict[str, Any]) -> None:
        pair = (message["pair"][0], message["pair"][1])
        if message["kind"] == "alone":
            names = ("access", "gbps", "wrong")
            self._figures[pair] = {name: message[name] for name in names}
        else:
            figures = self._figures[pair]
            figures["together_gbps"] = message["gbps"]
            figures["wrong"] += message["wrong"]
