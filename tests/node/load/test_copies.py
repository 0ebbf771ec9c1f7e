from __future__ import annotations

import os
import tempfile
from collections.abc import Callable

import pytest

pytest.importorskip("torch")

from hwcheck.node.load import copies
from hwcheck.node.load.device import Cpu
from hwcheck.node.load.shared import Shared
from hwcheck.node.load.spec import MIB


class Scripted:
    """A device whose copies take the given seconds, one after another."""

    def __init__(self, *spans_s: float) -> None:
        self.spans_s = list(spans_s)
        self.now = 0.0
        self.waited = 0

    def copy(self) -> None:
        self.now += self.spans_s.pop(0) if len(self.spans_s) > 1 else self.spans_s[0]

    def mark(self) -> float:
        return self.now

    def wait(self, mark: float) -> None:
        self.waited += 1

    def span_s(self, start: float, end: float) -> float:
        return end - start


def test_the_best_copy_counts_and_the_first_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MEASURE_S", 0.01)
    device = Scripted(0.001, 4.0, 2.0, 3.0)
    assert copies.best_gbps(device, device.copy, 8 * 10**9) == pytest.approx(4.0)
    assert device.waited >= 3


def test_a_slow_copy_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "MEASURE_S", 0.0)
    device = Scripted(1.0, 2.0)
    assert copies.best_gbps(device, device.copy, 10**9) == pytest.approx(0.5)
    assert device.waited == 2


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Cpu:
    monkeypatch.setattr(copies, "MEASURE_S", 0.01)
    device = Cpu()
    device.copy_bytes, device.link_bytes = 2 * MIB, MIB
    return device


def test_bytes_read_and_written_count_within_the_memory_and_once_over_the_link(
    monkeypatch: pytest.MonkeyPatch, small: Cpu
) -> None:
    moved: list[int] = []

    def record(device: object, copy: Callable[[], object], moved_bytes: int) -> float:
        moved.append(moved_bytes)
        copy()
        return 1.0

    monkeypatch.setattr(copies, "best_gbps", record)
    with tempfile.TemporaryFile() as lock:
        copies.within(small)
        copies.over_the_link(small, Shared(-1, -1, lock.fileno()))
    assert moved == [4 * MIB, MIB, MIB]


def test_the_three_speeds_of_this_machine(small: Cpu) -> None:
    with tempfile.TemporaryFile() as lock:
        speeds = copies.within(small)
        speeds.update(copies.over_the_link(small, Shared(-1, -1, lock.fileno())))
    assert list(speeds) == ["copy_gbps", "to_device_gbps", "from_device_gbps"]
    assert all(0.05 < gbps < 2000 for gbps in speeds.values()), os.uname()
