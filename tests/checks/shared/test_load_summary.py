"""The steady part of a load, and each GPU against its like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hwcheck.checks.shared.load_summary import (
    FigureOfKind,
    Loaded,
    kinds,
    load_of,
    percent,
    share_percent,
    usual,
    with_peers,
)
from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.wire import Sample
from hwcheck.testing.fake_node import FakeNode

ALIKE = {"name": "A", "board_id": "1"}


def node(*figures: Any, gpus: list[dict[str, Any]] | None = None, **load: Any) -> FakeNode:
    """Return a node whose GPUs told these columns of power."""
    told = [None if figure is None else {"series": {"power_w": figure}} for figure in figures]
    says = {"gpu": {"compute_processes": []}, "load": {"gpus": told, **load}}
    return FakeNode({"gpus": gpus or [ALIKE] * len(figures), **says})


def loaded(power: Any, **load: Any) -> Loaded:
    made = node(power, **load)
    return Loaded(made.gpus()[0], made.load())


RISING = {"line": [[0, 100], [20, 300], [20.5, 0], [30, 0]]}


def test_under_load_is_from_begin_to_end() -> None:
    values = loaded(RISING).under_load("power_w")
    assert (values[0], values[-1], len(values)) == (100, 300, 41)


@pytest.mark.parametrize(("settled_s", "first"), [(None, 200), (4.0, 140), (16.0, 200)])
def test_the_steady_part(settled_s: float | None, first: float) -> None:
    values = loaded(RISING, settled_s=settled_s).steady("power_w")
    assert (values[0], values[-1]) == (pytest.approx(first), 300)


def test_too_few_samples_are_none() -> None:
    with pytest.raises(CouldNotMeasure, match="gpu0: power_w: told 4 times under load, 5 are"):
        loaded([None] * 10 + [1, 2, 3, 4] + [None] * 51).under_load("power_w")
    with pytest.raises(CouldNotMeasure, match="gpu0: fan_percent: NVML does not tell it"):
        loaded(1).under_load("fan_percent")


def test_a_gpu_that_the_load_did_not_reach() -> None:
    made = node(1, None)
    with pytest.raises(CouldNotMeasure, match="gpu1: the load did not reach it"):
        Loaded(made.gpus()[1], made.load()).work()


def test_why_there_is_no_figure() -> None:
    assert loaded(1).figure(3.5, "copy") == 3.5
    with pytest.raises(CouldNotMeasure, match="gpu0: no copy: it was not measured"):
        loaded(1).figure(None, "copy")
    with pytest.raises(CouldNotMeasure, match="gpu0: no copy: too hot"):
        loaded(1, stopped="too hot").figure(None, "copy")


def test_an_exercise_is_no_load() -> None:
    assert load_of(node(1)).backend == "cuda"
    with pytest.raises(CouldNotMeasure, match="ran on cpu, which says nothing about GPUs"):
        load_of(node(1, backend="cpu"))


def test_a_gpu_is_held_against_the_others_and_not_against_itself() -> None:
    figures = [
        FigureOfKind("gpu0", "A", 10),
        FigureOfKind("gpu1", "A", 20),
        FigureOfKind("gpu2", "B", 90),
    ]
    assert [usual(own, figures) for own in figures] == [20, 10, None]
    assert percent("share")(figures[0], 20) == Sample("share", 50.0, "%", "gpu0")
    assert percent("share")(figures[0], 0) == Sample("share", 100.0, "%", "gpu0")


def test_gpus_that_do_not_say_their_kind_are_like_no_other() -> None:
    made = node(1, 1, 1, gpus=[ALIKE, {"name": "A"}, ALIKE])
    assert kinds(made) == {"gpu0": "A 1", "gpu1": "gpu1", "gpu2": "A 1"}


def _power(gpu: Loaded) -> Iterator[Sample]:
    yield Sample("power_w", gpu.under_load("power_w")[0], "W", gpu.subject)


def test_peers_are_compared_though_one_could_not_be_measured() -> None:
    made = node(100, 200, [None] * 65)
    samples: list[Sample] = []
    with pytest.raises(CouldNotMeasure, match="gpu2: power_w"):
        samples.extend(with_peers(made, _power, "power_w", percent("share")))
    assert [(sample.metric, sample.subject, sample.value) for sample in samples] == [
        ("power_w", "gpu0", 100),
        ("power_w", "gpu1", 200),
        ("share", "gpu0", 50.0),
        ("share", "gpu1", 200.0),
    ]


def test_share_of_samples() -> None:
    assert share_percent({0: 1, 8: 1, 12: 1, 4: 1}, lambda bits: bool(bits & 8)) == 50.0
    assert share_percent({4: 999, 12: 1}, lambda bits: bool(bits & 8)) == 0.1
