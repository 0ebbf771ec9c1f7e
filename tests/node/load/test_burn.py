"""The worker's body, in this process."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

from hwcheck.node.load import burn, copies, products
from hwcheck.node.load.products import PAIRS
from hwcheck.node.load.shared import Shared
from hwcheck.node.load.spec import BurnSpec, Target
from hwcheck.node.torch_runtime import torch
from tests.node.load import faulty_burn


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threads = torch.get_num_threads()
    monkeypatch.setattr(copies, "MEASURE_S", 0.01)
    monkeypatch.setattr(burn, "WINDOW_S", 0.2)
    yield
    torch.set_num_threads(threads)


class Words:
    """The shared descriptors, of which the test holds the other ends."""

    def __init__(self, lock_fd: int) -> None:
        self.stop_fd, self.stop_end = os.pipe()
        self.go_fd, gate = os.pipe()
        os.close(gate)
        self.shared = Shared(self.go_fd, self.stop_fd, lock_fd)

    def end(self) -> None:
        os.close(self.stop_end)
        self.stop_end = -1

    def close(self) -> None:
        for fd in (self.stop_fd, self.go_fd, self.stop_end):
            if fd >= 0:
                os.close(fd)


@pytest.fixture
def words() -> Iterator[Words]:
    with tempfile.TemporaryFile() as lock:
        opened = Words(lock.fileno())
        yield opened
        opened.close()


def work(words: Words, seconds: float = 0.5, windows: int = 99) -> list[dict[str, Any]]:
    """Run a worker that is told to end after so many windows."""
    said: list[dict[str, Any]] = []

    def send(message: dict[str, Any]) -> None:
        said.append(message)
        done = len([one for one in said if one["kind"] == "window"])
        if message["kind"] == "window" and done == windows:
            words.end()

    burn.run_worker(BurnSpec((), seconds, nice=0), 0, words.shared, send)
    return said


def test_it_prepares_works_and_ends_with_the_time(words: Words) -> None:
    started = time.monotonic()
    said = work(words)
    assert time.monotonic() - started < 30
    kinds = [message["kind"] for message in said]
    assert kinds[:5] == ["step"] * 4 + ["prepared"]
    assert set(kinds[5:-1]) == {"window"}
    assert kinds[-1] == "done"
    prepared = said[4]
    assert (prepared["dtype"], prepared["size"]) == ("fp32", 512)
    assert prepared["copy_gbps"] > 0
    for window in said[5:-1]:
        assert window["products"] > 0
        assert window["seconds"] > 0
        assert window["wrong"] == 0


def test_it_ends_when_asked(words: Words) -> None:
    said = work(words, seconds=600.0, windows=1)
    assert [message["kind"] for message in said[5:]] == ["window", "done"]


def test_asked_before_the_start_it_does_not_begin(words: Words) -> None:
    words.end()
    assert [message["kind"] for message in work(words, seconds=600.0)[4:]] == ["prepared", "done"]


def test_a_flipped_bit_is_reported(monkeypatch: pytest.MonkeyPatch, words: Words) -> None:
    healthy, calls = products.multiply, []

    def multiply(left: Any, right: Any, out: Any) -> None:
        healthy(left, right, out)
        calls.append(1)
        if len(calls) == PAIRS + 1 + 2:  # in the first batch, after the one that is timed
            faulty_burn.flip(out)

    monkeypatch.setattr(products, "multiply", multiply)
    windows = [message for message in work(words) if message["kind"] == "window"]
    assert {window["wrong"] for window in windows} == {1}


def test_a_window_keeps_the_device_busy_and_queues_no_more_than_it_must() -> None:
    class Device:
        ahead = most = 0

        def wait(self, mark: int) -> None:
            Device.ahead = min(Device.ahead, batches.made - mark)

        def span_s(self, start: int, end: int) -> float:
            return 0.125

    class Batches:
        made = 0

        def batch(self) -> list[tuple[int, int]]:
            self.made += 1
            Device.ahead += 1
            Device.most = max(Device.most, Device.ahead)
            return [(self.made, self.made)] * 3

        def wrong(self) -> int:
            return 5

    batches = Batches()
    said = burn.window(Device(), batches, lambda: batches.made == 20)  # type: ignore[arg-type]
    assert said == {"kind": "window", "products": 20 * 3, "seconds": 7.5, "wrong": 5}
    assert Device.most == burn.AHEAD + 1


def test_it_stays_near_its_gpu_and_is_nice(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr(os, "nice", done.append)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    monkeypatch.setattr(os, "sched_setaffinity", lambda pid, cpus: done.append(cpus))
    burn.step_aside(BurnSpec((Target("gpu0", "GPU-a", "1-9"),), 1.0), 0)
    burn.step_aside(BurnSpec((Target("gpu0", "GPU-a", "8-9"),), 1.0, nice=3), 0)  # none allowed
    assert done == [10, {1, 2}, 3]
