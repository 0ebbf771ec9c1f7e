"""A LiveNode in this process, with NVML replaced by the GPUs of a case."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hwcheck.contract.wire import Request
from hwcheck.node.live import LiveNode
from hwcheck.node.load.sampler import SampleSource
from hwcheck.node.nvml.events import EventWatch
from hwcheck.node.nvml.reader import NotSupported
from hwcheck.testing.fake_node import FakeNode

ADDRESSES = ("0000:18:00.0", "0001:2a:00.0")

T = TypeVar("T")


class FakeNvml:
    """``Nvml`` as far as LiveNode uses it, over the GPUs of a case."""

    def __init__(self, says: Mapping[str, Any]) -> None:
        node = FakeNode(says)
        self.status, self.gpus = node.nvml_status, node.gpus

    def opening_took_s(self) -> float:
        return 0.0

    def sampled(self) -> list[SampleSource]:
        return []

    def watch_events(self) -> EventWatch:
        return EventWatch(NoNvml(), [])


class NoNvml:
    """A driver that has no events."""

    def ask(self, names: Sequence[str], *args: Any) -> Any:
        raise NotSupported("Not Supported")

    def constant(self, name: str) -> Any:
        raise NotSupported(name)

    def together(self, work: Callable[[], T]) -> T:
        return work()

    def error_text(self, code: int) -> str:
        raise NotSupported(str(code))


def live_node(root: Path, says: Mapping[str, Any], **request: Any) -> LiveNode:
    made = Request(token="0", checks=(), host_root=str(root), **request)
    node = LiveNode(made, "payload", lambda text: None)
    node._nvml = FakeNvml(says)  # type: ignore[assignment]
    return node
