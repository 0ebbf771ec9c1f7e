from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure, NotApplicable
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import (
    AnswerOfKind,
    Survey,
    among_equals,
    majority,
    mig_is_on,
    of_kind,
    one_by_one,
    per_gpu,
    where_supported,
)
from hwcheck.node.node import Gpu
from hwcheck.testing.fake_node import FakeNode

LOST = {"error": "GPU is lost"}


def node(*gpus: dict[str, Any]) -> FakeNode:
    return FakeNode({"gpus": list(gpus)})


def replays(gpu: Gpu) -> Iterator[Sample]:
    count = gpu.pcie_replays()
    if count is not None:
        yield Sample("replays", count, "", gpu.subject)


def test_a_gpu_that_lacks_the_thing_is_left_out() -> None:
    some = where_supported(node({"pcie_replays": None}, {"pcie_replays": 7}), replays, "none")
    assert list(some) == [Sample("replays", 7, "", "gpu1")]


def test_where_no_gpu_has_the_thing_the_check_does_not_apply() -> None:
    with pytest.raises(NotApplicable, match="none has it"):
        list(where_supported(node({"pcie_replays": None}), replays, "none has it"))


def test_a_gpu_that_cannot_be_asked_is_not_one_that_lacks_the_thing() -> None:
    with pytest.raises(CouldNotMeasure, match="gpu1: GPU is lost"):
        list(where_supported(node({"pcie_replays": None}, LOST), replays, "none has it"))


def test_a_survey_keeps_who_answered_and_ends_with_who_could_not() -> None:
    survey = Survey(node({"uuid": "GPU-a"}, LOST, {"uuid": "GPU-c"}), lambda gpu: gpu.uuid())
    assert [(gpu.subject, uuid) for gpu, uuid in survey.answers] == [
        ("gpu0", "GPU-a"),
        ("gpu2", "GPU-c"),
    ]
    with pytest.raises(CouldNotMeasure, match=r"^gpu1: GPU is lost$"):
        survey.conclude("none")


def test_a_survey_asks_all_at_the_same_time() -> None:
    together = threading.Barrier(3)
    survey = Survey(node({}, {}, {}), lambda gpu: together.wait(10))  # broken unless all are there
    assert [gpu.subject for gpu, _ in survey.answers] == ["gpu0", "gpu1", "gpu2"]
    assert sorted(place for _, place in survey.answers) == [0, 1, 2]


def test_a_survey_that_all_answered_ends_well() -> None:
    survey = Survey(node({"uuid": "GPU-a"}), lambda gpu: gpu.uuid())
    survey.conclude("none")
    assert [(gpu.subject, answer) for gpu, answer in survey.answers] == [("gpu0", "GPU-a")]


def test_a_survey_of_what_no_gpu_has_does_not_apply() -> None:
    survey = Survey(node({"serial": None}), lambda gpu: gpu.serial())
    with pytest.raises(NotApplicable, match="no serial numbers"):
        survey.conclude("no serial numbers")


def test_a_survey_of_no_gpu_could_not_measure() -> None:
    with pytest.raises(CouldNotMeasure, match="NVML sees no GPU"):
        Survey(node(), lambda gpu: gpu.uuid()).conclude("none")


@pytest.mark.parametrize(
    ("values", "most"), [(["a"], "a"), (["b", "a", "a"], "a"), (["b", "a", "a", "b"], "b")]
)
def test_majority(values: list[str], most: str) -> None:
    assert majority(values) == most


@pytest.mark.parametrize(
    ("mode", "on"),
    [
        (None, False),
        ({"current": False, "pending": True}, False),
        ({"current": True, "pending": False}, True),
    ],
)
def test_mig_is_on(mode: dict[str, bool] | None, on: bool) -> None:
    (gpu,) = node({"mig_mode": mode}).gpus()
    assert mig_is_on(gpu) is on


def test_boards_are_held_against_their_own_kind() -> None:
    boards = [("T4", "1"), ("L4", "9"), ("T4", "2"), ("T4", "2")]
    gpus = node(*({"name": name, "board_id": "0x1"} for name, _ in boards)).gpus()
    answers = [of_kind(gpu, boards[place][1]) for place, gpu in enumerate(gpus)]
    assert answers[1] == AnswerOfKind("gpu1", "L4 0x1", "9")
    samples = list(among_equals("vbios", answers))
    assert [sample.value for sample in samples if sample.metric == "vbios"] == ["1", "9", "2", "2"]
    most = [sample.value for sample in samples if sample.metric == "vbios_of_most"]
    assert most == ["2", "9", "2", "2"]


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


def read(name: str) -> Iterator[Sample]:
    yield Sample("first", 1, subject=name)
    if name.startswith("bad"):
        raise CouldNotMeasure(f"{name[:4]} says nothing")
    yield Sample("second", 2, subject=name)


def test_what_cannot_be_read_costs_itself_only() -> None:
    found: list[Sample] = []
    with pytest.raises(CouldNotMeasure, match=r"^bad1 says nothing; bad2 says nothing$"):
        # list.extend keeps what came before an error.
        found.extend(one_by_one(["bad1", "good", "bad2", "bad2 too"], read))
    assert [(sample.metric, sample.subject) for sample in found] == [
        ("first", "bad1"),
        ("first", "good"),
        ("second", "good"),
        ("first", "bad2"),
        ("first", "bad2 too"),
    ]


def test_all_of_it() -> None:
    assert len(list(one_by_one("ab", read))) == 4


def test_a_fault_of_ours_is_not_taken_for_an_answer() -> None:
    def broken(_: str) -> Iterator[Sample]:
        raise KeyError("x")
        yield

    with pytest.raises(KeyError):
        list(one_by_one("a", broken))
