"""Orders of training, carried out by ranks that this process forks, as the launcher does it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.model_shape import MODELS
from hwcheck.node.training.order import TrainingOrder

GONE_S = 10.0
"""A process that was killed has ended after this."""

SETUP: Mapping[str, Any] = {
    "gpus": 0,
    "interface": "lo",
    "address": "127.0.0.1",
    "memory_bytes": 1 << 30,
    "settings": [],
}


def order(strategy: str, world: int = 2, **changes: Any) -> TrainingOrder:
    """An order of the tiny model on the CPU, which takes one timed step; a sequence a rank."""
    sequences = changes.pop("sequences", world)
    asked: dict[str, Any] = {
        "id": 1,
        "launch": f"{world}",
        "strategy": strategy,
        "rank0": 0,
        "world": world,
        "hosts": 1,
        "devices": (0,) * world,
        "store": ("127.0.0.1", 0),
        "model": MODELS["tiny"],
        "sequences": sequences,
        "parity_sequences": sequences,
        "micro_batch": 1,
        "parity_steps": 2,
        "warmup": 0,
        "steps": 1,
        "dtype": "fp32",
        "tf32": False,
        **changes,
    }
    return TrainingOrder(**asked)


def answers(orders: Sequence[TrainingOrder]) -> list[dict[str, Any]]:
    """Carry out orders, each with its number; return the answers."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)  # threads of it would not be there in a fork
    from hwcheck.node.multi_host.serve import store_of
    from hwcheck.node.training import launcher, serve

    launcher.import_slow()
    sent: list[dict[str, Any]] = []
    with store_of("127.0.0.1", sent.append, []) as shut:
        port = sent.pop()["port"]
        serve.serve(SETUP, _numbered(orders, port), sent.append, shut)
    return sent


def _numbered(orders: Sequence[TrainingOrder], port: int) -> Iterator[dict[str, Any]]:
    for number, each in enumerate(orders):
        yield {**each.to_dict(), "id": number, "store": ("127.0.0.1", port)}


def losses(answer: Mapping[str, Any]) -> list[float]:
    """The mean over the ranks that saw a loss, step by step."""
    seen = [part["losses"] for part in answer["losses"]]
    return [sum(step) / len(step) for step in zip(*seen, strict=True)]


def children() -> set[str]:
    """The living processes that this one started."""
    lists = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    stats = {pid: Path("/proc", pid, "stat").read_text() for pids in lists for pid in pids}
    return {pid for pid, stat in stats.items() if stat.rpartition(")")[2].split()[0] not in "ZX"}
