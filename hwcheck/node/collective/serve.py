"""Run the legs one after another and send a Leg as soon as each has ended."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from dataclasses import replace
from typing import Any, Callable, Dict, List, Tuple

from hwcheck.node.collective import rank as rank_body
from hwcheck.node.collective import stacks
from hwcheck.node.collective.log import Log
from hwcheck.node.collective.operation import Operation
from hwcheck.node.collective.rank import LARGEST_MEASURED, Bounds
from hwcheck.node.collective.ranks import RankGroup
from hwcheck.node.collective.spec import (
    SYSTEM_CONF,
    SYSTEM_CONF_NOTE,
    LegPlan,
    Spec,
    rank_environment,
    size_text,
)
from hwcheck.node.collective.watch import Watch
from hwcheck.wire import Leg, SizeTiming, to_dict

LEAST_SHARE = 0.5  # of the budget is left for the legs, however long torch took to import

Send = Callable[[Dict[str, Any]], None]


def serve(
    spec: Spec, operation: Operation, send: Send, import_s: float, close_fds: List[int]
) -> None:
    """Run every leg of ``spec``; ``close_fds`` are the launcher's own, which no rank may keep.

    A leg gets an equal share of what is left of the budget. What a killed leg took beyond its
    share is not taken from the others. No leg goes beyond the largest size of the first that was
    done, so that they can be compared.
    """
    left_s = max(spec.budget_s - import_s, spec.budget_s * LEAST_SHARE)
    largest, why = spec.max_bytes, ""
    for index, plan in enumerate(spec.legs):
        share_s = left_s / (len(spec.legs) - index)
        start = time.monotonic()
        bounds = Bounds(start + share_s, share_s + spec.grace_s, largest, why)
        leg = run_leg(spec, operation, plan, bounds, send, close_fds)
        left_s -= min(share_s, leg.duration_s)
        if leg.state == "done" and not why:
            largest = leg.sizes[-1].size_bytes
            why = "stopped at %s, the largest size of leg %s" % (size_text(largest), leg.leg)
        send({"kind": "leg", "leg": to_dict(leg)})


def run_leg(
    spec: Spec,
    operation: Operation,
    plan: LegPlan,
    bounds: Bounds,
    send: Send,
    close_fds: List[int],
) -> Leg:
    """Fork the ranks of one leg, watch them, and say what became of it."""
    start = time.monotonic()

    def on_size(timing: SizeTiming) -> None:
        words = (spec.collective, plan.name, size_text(timing.size_bytes), timing.busbw_gbps)
        send({"kind": "progress", "text": "%s %s %s %.1f GB/s" % words})

    with Log() as log, tempfile.TemporaryFile() as store, RankGroup() as group:
        for rank in range(spec.ranks):
            body = _body(spec, operation, bounds, rank, store.fileno())
            env = rank_environment(spec, plan, rank, os.environ)
            group.fork(rank, body, env, log.fd, close_fds)
        watch = Watch(group, operation.busbw_factor(spec.ranks), on_size)
        state, reason = watch.until(start + bounds.limit_s)
        if state == "hang":
            reason = "killed after %.0f s, %s" % (bounds.limit_s, reason)
        tail, left_over = _end(plan.name, state, group, log)
    leg = Leg(
        collective=spec.collective,
        leg=plan.name,
        backend=spec.backend,
        ranks=spec.ranks,
        state=state,
        reason=reason,
        exercise=not spec.gpus,
        library=watch.library,
        env=plan.env,
        sizes=tuple(watch.sizes),
        notes=(*notes(spec), *_stop_note(watch.stop), *left_over),
        log_tail=tail,
    )
    return replace(leg, duration_s=time.monotonic() - start)


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


def _stop_note(stop: str) -> Tuple[str, ...]:
    return (stop,) if stop and stop != LARGEST_MEASURED else ()


def _body(
    spec: Spec, operation: Operation, bounds: Bounds, rank: int, store_fd: int
) -> Callable[[Send], None]:
    return lambda send: rank_body.run_rank(spec, operation, bounds, rank, store_fd, send)


def _end(name: str, state: str, group: RankGroup, log: Log) -> Tuple[str, List[str]]:
    """End the leg's processes; return the log's tail and notes about what could not be ended.

    The whole log goes to stderr, and from there into the host's log: what NCCL said about its
    transports is evidence.
    """
    tail = ""
    segments = stacks.shared_segments(group)
    if state == "hang":
        tail = stacks.tail_with_stacks(group, log)
    stuck = group.kill()
    left_over = stacks.remove(segments)
    for rank in stuck:
        left_over.append(
            "rank %d (pid %d) does not die: it is stuck in the kernel" % (rank.rank, rank.pid)
        )
    if state == "failed":
        tail = log.tail()
    sys.stderr.write("-- log of leg %s\n%s" % (name, log.read()))
    sys.stderr.flush()
    return tail, left_over
