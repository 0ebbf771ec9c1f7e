"""How fast one GPU copies: within its memory, and over PCIe each way alone."""

from __future__ import annotations

import time
from typing import Any, Callable, Dict, List

from hwcheck.node.load.shared import Shared
from hwcheck.node.torch_runtime import torch

MEASURE_S = 0.3  # long enough for memory and link to leave their idle states


def within(device: Any) -> Dict[str, float]:
    """Return ``copy_gbps``: bytes read and written by a copy within the device's memory."""
    source = torch.zeros(device.copy_bytes, dtype=torch.uint8, device=device.name)
    target = torch.empty_like(source)
    gbps = best_gbps(device, lambda: target.copy_(source), 2 * device.copy_bytes)
    return {"copy_gbps": gbps}


def over_the_link(device: Any, shared: Shared) -> Dict[str, float]:
    """Return ``to_device_gbps`` and ``from_device_gbps`` of pinned memory.

    One GPU of the node at a time, whosever turn it is: this is the speed of the link. All at
    once would give what the host can feed, which GPUs behind one switch share.
    """
    host = device.host_buffer(device.link_bytes)
    host.zero_()
    there = torch.zeros(device.link_bytes, dtype=torch.uint8, device=device.name)
    ways = {
        "to_device_gbps": lambda: there.copy_(host, non_blocking=True),
        "from_device_gbps": lambda: host.copy_(there, non_blocking=True),
    }
    with shared.turn():
        return {name: best_gbps(device, way, device.link_bytes) for name, way in ways.items()}


def best_gbps(device: Any, copy: Callable[[], Any], moved_bytes: int) -> float:
    """Return the best of the copies that fit in 0.3 s, in 1e9 bytes/s; the first is not counted."""
    copy()
    device.wait(device.mark())
    spans: List[float] = []
    end = time.monotonic() + MEASURE_S
    while not spans or time.monotonic() < end:
        start = device.mark()
        copy()
        done = device.mark()
        device.wait(done)
        spans.append(device.span_s(start, done))
    return float(moved_bytes / min(spans) / 1e9)
