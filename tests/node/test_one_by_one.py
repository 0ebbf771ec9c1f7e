from __future__ import annotations

from collections.abc import Iterator

import pytest

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.one_by_one import one_by_one
from hwcheck.node.wire import Sample


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
