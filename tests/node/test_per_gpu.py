from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from hwcheck.node.check import CouldNotMeasure, Gpu
from hwcheck.node.per_gpu import per_gpu
from hwcheck.node.wire import Sample
from tests.node.fakes import FakeNode


def _two(gpu: Gpu) -> Iterator[Sample]:
    yield Sample("width", gpu.pcie_link_width(), subject=gpu.subject)
    yield Sample("generation", gpu.pcie_link_generation(), subject=gpu.subject)


def test_each_gpu_that_fails_is_named_and_costs_only_itself() -> None:
    whole = {"pcie_link_width": 16, "pcie_link_generation": 5}
    samples = per_gpu(FakeNode({"gpus": [{"error": "lost"}, whole, {"pcie_link_width": 8}]}), _two)
    got = [(sample.subject, sample.metric) for _, sample in zip(range(3), samples, strict=False)]
    assert got == [("gpu1", "width"), ("gpu1", "generation"), ("gpu2", "width")]
    expected = "^gpu0: lost; gpu2: pcie_link_generation: Not Supported$"
    with pytest.raises(CouldNotMeasure, match=expected):
        next(samples)


def test_the_gpus_are_read_at_the_same_time_and_answer_in_order() -> None:
    together = threading.Barrier(4)

    def meet(gpu: Gpu) -> Iterator[Sample]:
        together.wait(10)  # broken unless all four are there
        yield Sample("width", 16, subject=gpu.subject)

    samples = list(per_gpu(FakeNode({"gpus": [{}] * 4}), meet))
    assert [sample.subject for sample in samples] == ["gpu0", "gpu1", "gpu2", "gpu3"]


def test_what_came_before_an_unforeseen_error_is_kept() -> None:
    def broken(gpu: Gpu) -> Iterator[Sample]:
        yield Sample("width", 16, subject=gpu.subject)
        raise KeyError(gpu.subject)

    samples = per_gpu(FakeNode({"gpus": [{}]}), broken)
    assert next(samples).subject == "gpu0"
    with pytest.raises(KeyError):
        next(samples)


def test_no_gpu_is_no_measurement() -> None:
    with pytest.raises(CouldNotMeasure, match="NVML sees no GPU"):
        list(per_gpu(FakeNode({"gpus": []}), _two))


def test_an_unforeseen_error_is_not_swallowed() -> None:
    def broken(gpu: Gpu) -> Iterator[Sample]:
        raise KeyError(gpu.subject)

    with pytest.raises(KeyError):
        list(per_gpu(FakeNode({"gpus": [{}]}), broken))
