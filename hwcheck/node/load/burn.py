"""What the worker of one GPU does: copies, then products until it is told to end."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, Dict, List, Tuple

from hwcheck.node.affinity import cpu_set, stay_on
from hwcheck.node.json_lines import Send
from hwcheck.node.load import copies
from hwcheck.node.load.device import open_device
from hwcheck.node.load.products import Products
from hwcheck.node.load.shared import Shared
from hwcheck.node.load.spec import BurnSpec

WINDOW_S = 1.0
AHEAD = 2  # batches


def run_worker(spec: BurnSpec, worker: int, shared: Shared, send: Send) -> None:
    """Measure, and send what came of it as it comes; a window of products about every second.

    Looks whether it was asked to end after every batch, so it ends a fraction of a second later.
    """
    step(send, "starting CUDA" if spec.gpus else "starting")
    step_aside(spec, worker)
    device = open_device(spec)
    step(send, "copying within its memory")
    speeds = copies.within(device)
    step(send, "waiting for its turn to copy over PCIe, or copying")
    speeds.update(copies.over_the_link(device, shared))
    step(send, "making the first products")
    products = Products(device)
    facts = {"dtype": device.dtype, "size": products.size, "digest": products.digest()}
    send({"kind": "prepared", "library": device.library, **facts, **speeds})
    shared.wait_for_go()
    end = time.monotonic() + spec.seconds

    def over() -> bool:
        return time.monotonic() >= end or shared.must_end()

    while not over():
        send(window(device, products, over))
    send({"kind": "done"})


def step(send: Send, doing: str) -> None:
    """Say what comes next: of a worker that hangs, it is what is known."""
    send({"kind": "step", "doing": doing})


def step_aside(spec: BurnSpec, worker: int) -> None:
    """Be nice to others, and stay near the GPU: memory of another socket would slow its link."""
    os.nice(spec.nice)
    near = cpu_set(spec.gpus[worker].cpus) if spec.gpus else set()
    stay_on(near & os.sched_getaffinity(0))


def window(device: Any, products: Products, over: Callable[[], bool]) -> Dict[str, Any]:
    """Do about a second of products, less when all is ``over``; return the message about them.

    Some batches are queued ahead, so that the device never waits for the host, and no more, so
    that the end comes soon and the host sleeps meanwhile. The seconds are those of the products
    alone, without the comparisons.
    """
    spans: List[Tuple[Any, Any]] = []
    ends: List[Any] = []
    end = time.monotonic() + WINDOW_S
    while not ends or (time.monotonic() < end and not over()):
        spans += products.batch()
        ends.append(spans[-1][1])
        if len(ends) > AHEAD:
            device.wait(ends[-1 - AHEAD])
    device.wait(ends[-1])
    return {
        "kind": "window",
        "products": len(spans),
        "seconds": sum(device.span_s(start, end) for start, end in spans),
        "wrong": products.wrong(),
    }
