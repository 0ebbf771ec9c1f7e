"""Verdicts from what ranks send and how they end, with processes that need no torch."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hwcheck.contract.wire import SizeTiming
from hwcheck.node.collective.log import Log
from hwcheck.node.collective.ranks import RankGroup
from hwcheck.node.collective.watch import Watch

Body = Callable[[Callable[[dict[str, Any]], None]], None]
Start = Callable[..., tuple[Watch, RankGroup, list[SizeTiming]]]


@pytest.fixture
def start() -> Iterator[Start]:
    with Log() as log, RankGroup() as group:

        def begin(*bodies: Body) -> tuple[Watch, RankGroup, list[SizeTiming]]:
            for rank, body in enumerate(bodies):
                group.fork(rank, body, dict(os.environ), log.fd, [])
            seen: list[SizeTiming] = []
            return Watch(group, 1.0, seen.append), group, seen

        yield begin


def size(times_us: list[float], wrong: int = 0) -> dict[str, Any]:
    return {"kind": "size", "size_bytes": 1000, "times_us": times_us, "wrong": wrong}


DONE = {"kind": "done", "stop": "enough"}


def says(*messages: dict[str, Any]) -> Body:
    return lambda send: [send(message) for message in messages] and None  # type: ignore[return-value]


def hangs(*messages: dict[str, Any]) -> Body:
    def body(send: Callable[[dict[str, Any]], None]) -> None:
        says(*messages)(send)
        os.read(os.pipe()[0], 1)  # nobody will ever write

    return body


def raises(text: str) -> Body:
    def body(send: Callable[[dict[str, Any]], None]) -> None:
        raise ValueError(text)

    return body


def soon(seconds: float = 10.0) -> float:
    return time.monotonic() + seconds


def test_a_size_is_put_together_from_all_ranks(start: Start) -> None:
    watch, _, seen = start(
        says(size([1.0, 5.0], wrong=2), DONE), says(size([3.0, 3.0], wrong=1), DONE)
    )
    assert watch.until(soon()) == ("done", "")
    assert seen == watch.sizes
    assert (seen[0].time_us, seen[0].wrong, watch.stop) == (4.0, 3, "enough")


def test_a_size_that_one_rank_did_not_finish_is_not_reported(start: Start) -> None:
    watch, _, seen = start(says(size([1.0]), DONE), hangs())
    assert watch.until(soon(0.3)) == ("hang", "before the first size was finished")
    assert not seen


def test_ranks_that_speak_beyond_their_time_are_late_and_those_that_are_silent_hang(
    start: Start,
) -> None:
    read_fd, write_fd = os.pipe()
    limit = time.monotonic() + 0.2

    def slow(send: Callable[[dict[str, Any]], None]) -> None:
        send(size([1.0]))
        while True:  # one word every 0.1 s, for as long as nobody ends it
            select.select([read_fd], [], [], 0.1)
            send({"kind": "alive"})

    watch, group, seen = start(slow)
    assert watch.until(limit, lambda: 30.0) == ("late", "after 1000 B was finished")
    assert (len(seen), watch.at(), watch.others) == (1, 1000, [])
    group.kill()
    os.close(write_fd)
    os.close(read_fd)


def test_silence_is_a_hang_once_it_is_longer_than_a_run_takes(start: Start) -> None:
    watch, _, _ = start(hangs())
    begin = time.monotonic()
    assert watch.until(begin, lambda: 1.0) == ("hang", "before the first size was finished")
    assert time.monotonic() - begin > 0.5


def test_a_done_rank_that_does_not_end_does_not_spoil_the_leg(start: Start) -> None:
    watch, _, _ = start(says(size([1.0]), DONE), hangs(size([1.0]), DONE))
    before = time.monotonic()
    assert watch.until(soon(60.0)) == ("done", "")
    assert time.monotonic() - before < 30.0


def test_a_death_is_the_cause_and_an_exception_its_echo(start: Start) -> None:
    watch, _, _ = start(raises("connection closed by peer"), lambda send: os._exit(9))
    assert watch.until(soon()) == ("failed", "rank 1 exited with code 9")


def test_the_first_of_two_exceptions_is_the_cause(start: Start) -> None:
    read_fd, write_fd = os.pipe()

    def second(send: Callable[[dict[str, Any]], None]) -> None:
        os.close(write_fd)
        os.read(read_fd, 1)  # ends when rank 1 has ended
        raise ValueError("echo")

    def first(send: Callable[[dict[str, Any]], None]) -> None:
        raise ValueError("cause")

    watch, _, _ = start(second, first)
    os.close(write_fd)
    os.close(read_fd)
    assert watch.until(soon()) == ("failed", "rank 1: ValueError: cause")


def test_a_rank_that_ends_early_and_well_is_a_failure_too(start: Start) -> None:
    watch, _, _ = start(hangs(), says(size([1.0])))
    assert watch.until(soon()) == ("failed", "rank 1 ended without a word")


@pytest.mark.parametrize(("number", "aborted"), [(signal.SIGABRT, True), (signal.SIGKILL, False)])
def test_a_rank_that_was_aborted_is_told_from_one_that_was_killed(
    start: Start, number: signal.Signals, aborted: bool
) -> None:
    def ends(send: Callable[[dict[str, Any]], None]) -> None:
        os.kill(os.getpid(), number)

    watch, _, _ = start(ends, hangs())
    assert watch.until(soon()) == ("failed", f"rank 0 was killed by {number.name}")
    assert watch.aborted is aborted
