"""Buffers in place and out of place; the exchange itself is done here, by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

from hwcheck.contract.wire import COLLECTIVES
from hwcheck.node.collective.operations import BOTH, load
from hwcheck.node.collective.pattern import Pattern
from hwcheck.node.collective.work import Work, chunk_bytes, footprint

KIB = 1024


def alone(name: str, run: Any) -> Any:
    """Return the collective with another way to run; one rank is enough to see its buffers."""
    return replace(load(name), run=run)


@pytest.mark.parametrize("dtype", ["float", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "ranks", "sent", "held", "size"),
    [
        ("all_reduce", 3, 64 * KIB, 64 * KIB, 64 * KIB),
        ("broadcast", 3, 64 * KIB, 64 * KIB, 64 * KIB),
        ("sendrecv", 3, 64 * KIB, 64 * KIB, 64 * KIB),
        ("all_gather", 3, 21840, 3 * 21840, 3 * 21840),
        ("reduce_scatter", 3, 3 * 21840, 21840, 3 * 21840),
        ("alltoall", 3, 3 * 21840, 3 * 21840, 3 * 21840),
        ("alltoall", 8, 64 * KIB, 64 * KIB, 64 * KIB),
    ],
)
def test_sizes_are_those_of_nccl_tests(
    name: str, ranks: int, sent: int, held: int, size: int, dtype: str
) -> None:
    seen: list[int] = []

    def look(source: Any, target: Any, *_: int) -> None:
        seen.extend(each.numel() * each.element_size() for each in (source, target))

    work = Work(alone(name, look), 64 * KIB, 1, Pattern(dtype, ranks, "cpu"), "cpu")
    work.run()
    assert (seen, work.size_bytes) == ([sent, held], size)


@pytest.mark.parametrize("name", ["all_gather", "reduce_scatter"])
def test_in_place_a_ranks_chunk_of_one_buffer_is_the_other(name: str) -> None:
    seen: list[Any] = []
    of = Pattern("float", 4, "cpu")
    run = alone(name, lambda source, target, *_: seen.append((source, target)))
    for in_place in (True, False):
        Work(run, 64 * KIB, 2, of, "cpu", in_place).run()
    places = [(source.data_ptr(), target.data_ptr()) for source, target in seen]
    whole, part = places[0] if name == "reduce_scatter" else places[0][::-1]
    assert part - whole == 2 * 16 * KIB
    assert abs(places[1][0] - places[1][1]) >= 16 * KIB


def test_nothing_is_taken_for_right_because_it_was_there_before() -> None:
    """A run that moves nothing leaves a zeroed target, whatever an earlier one had left."""
    of = Pattern("float", 1, "cpu")
    copying = alone("sendrecv", lambda source, target, *_: target.copy_(source))
    work = Work(copying, 64 * KIB, 0, of, "cpu")
    assert work.verified(3) == 0
    still = Work(alone("sendrecv", lambda *_: None), 64 * KIB, 0, of, "cpu")
    still._target.copy_(work._target)
    assert still.verified(3) == 16 * KIB


def test_a_chunk_is_whole_16_bytes() -> None:
    assert chunk_bytes(1 << 20, 1) == 1 << 20
    assert chunk_bytes(1 << 20, 3) == 349520
    assert chunk_bytes(1000, 63) == 0


@pytest.mark.parametrize("name", COLLECTIVES)
def test_the_footprint_is_what_the_buffers_take(name: str) -> None:
    operation, of = load(name), Pattern("float", 4, "cpu")
    taken: list[int] = []

    def look(source: Any, target: Any, *_: int) -> None:
        buffers = {each.untyped_storage().data_ptr(): each for each in (source, target)}
        taken.append(sum(each.untyped_storage().nbytes() for each in buffers.values()))

    for in_place in (False, True) if operation.placement == BOTH else (False,):
        Work(alone(name, look), 64 * KIB, 1, of, "cpu", in_place).run()
    assert max(taken) == footprint(operation, 4) * 64 * KIB
