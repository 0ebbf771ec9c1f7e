"""What one rank of one leg does: join, verify, time, verify, size by size."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Tuple

from hwcheck.node.collective import runtime
from hwcheck.node.collective.operation import Operation
from hwcheck.node.collective.runtime import torch
from hwcheck.node.collective.spec import Spec, size_text

STEP_GROWTH = 2 * 1.25  # the next size is twice as large; a quarter for noise
MEMORY_SHARE = 0.5  # of what is free: buffers of the library come on top of ours
FLOAT_BYTES = 4
LARGEST_MEASURED = "the largest size is measured"

Send = Callable[[Dict[str, Any]], None]


@dataclass(frozen=True)
class Bounds:
    """Where a leg ends: ``deadline`` is on the monotonic clock of the machine."""

    deadline: float
    limit_s: float
    max_bytes: int
    max_bytes_reason: str = ""


def run_rank(
    spec: Spec, operation: Operation, bounds: Bounds, rank: int, store_fd: int, send: Send
) -> None:
    """Measure every size and send what came of each; the launcher puts the ranks together."""
    device = runtime.device(spec, rank)
    store = runtime.join(spec, rank, store_fd, bounds.limit_s + 60.0)
    send({"kind": "joined", "library": device.library()})
    size, round_, stop = spec.min_bytes, 0, ""
    memory_bytes = int(device.free_bytes * MEMORY_SHARE)
    while not stop:
        times_us, wrong, step_s = measure(spec, operation, device, rank, size, round_)
        send({"kind": "size", "size_bytes": size, "times_us": times_us, "wrong": wrong})
        stop = agree(store, spec.ranks, rank, bounds, (size, step_s, memory_bytes))
        size, round_ = size * 2, round_ + 2
    send({"kind": "done", "stop": stop})
    meet(store, spec.ranks, rank)


def measure(
    spec: Spec, operation: Operation, device: Any, rank: int, size_bytes: int, round_: int
) -> Tuple[List[float], int, float]:
    """Return the times (us), the wrong elements, and how long such a step takes (s).

    The first run of a size may set up connections, so the step is counted as the timed loop and
    twice the second verified run.
    """
    buffer = torch.empty(size_bytes // FLOAT_BYTES, dtype=torch.float32, device=device.name)

    def verified(which: int) -> int:
        operation.fill(buffer, rank, spec.ranks, which)
        operation.run(buffer)
        return operation.count_wrong(buffer, rank, spec.ranks, which)

    wrong = verified(round_)
    start = time.monotonic()
    times_us = device.time_us(lambda: operation.run(buffer), spec.warmups, spec.iterations)
    middle = time.monotonic()
    wrong += verified(round_ + 1)
    end = time.monotonic()
    return times_us, wrong, (middle - start) + 2 * (end - middle)


def agree(store: Any, ranks: int, rank: int, bounds: Bounds, mine: Tuple[int, float, int]) -> str:
    """Return why all ranks stop after this size, or an empty text.

    Rank 0 decides from every rank's (size, seconds, memory). The words go through the store, not
    through the collective under test, which may be corrupt.
    """
    size_bytes, step_s, memory_bytes = mine
    verdict = "stop/%d" % size_bytes
    store.set("took/%d/%d" % (size_bytes, rank), "%r %d" % (step_s, memory_bytes))
    if rank == 0:
        told = [store.get("took/%d/%d" % (size_bytes, each)).split() for each in range(ranks)]
        slowest_s = max(float(seconds) for seconds, _ in told)
        least_bytes = min(int(free) for _, free in told)
        left_s = bounds.deadline - time.monotonic()
        store.set(
            verdict, reason_to_stop(bounds, size_bytes, slowest_s, left_s, least_bytes) or "-"
        )
    text: str = store.get(verdict).decode()
    return "" if text == "-" else text


def reason_to_stop(
    bounds: Bounds, size_bytes: int, step_s: float, left_s: float, memory_bytes: int
) -> str:
    """Return why the size after ``size_bytes`` is not measured, or an empty text."""
    larger = size_bytes * 2
    if larger > bounds.max_bytes:
        return bounds.max_bytes_reason or LARGEST_MEASURED
    if larger > memory_bytes:
        return "stopped at %s: the next size does not fit in free memory" % size_text(size_bytes)
    if step_s * STEP_GROWTH > left_s:
        return "stopped at %s: the next size does not fit the time budget" % size_text(size_bytes)
    return ""


def meet(store: Any, ranks: int, rank: int) -> None:
    """Wait until every rank is here: one that leaves early breaks its neighbors' connections."""
    store.set("left/%d" % rank, "1")
    store.wait(["left/%d" % each for each in range(ranks)])
