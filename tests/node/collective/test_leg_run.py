"""Ranks that stay between turns; what they do in a turn stands in for a collective."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

from hwcheck.node.collective import rank as rank_body
from hwcheck.node.collective.leg_run import LegRun, Taken
from hwcheck.node.collective.rank import Bounds, Turn, turns_of
from hwcheck.node.collective.spec import EVERY_NODE_LEGS, MIB, CollectiveSpec

SPEC = CollectiveSpec(("all_reduce",), 2, 0, 45.0, 1 << 30)
Send = Callable[[dict[str, Any]], None]


def echo(spec: CollectiveSpec, rank: int, store_fd: int, turns_fd: int, send: Send) -> None:
    """Say who this is, once, and answer every turn as it asks."""
    send({"kind": "joined", "library": "echo"})
    os.write(1, b"leg says %s\n" % os.environ.get("NCCL_P2P_DISABLE", "nothing").encode())
    for turn in turns_of(turns_fd):
        os.write(1, b"rank %d is at turn %d\n" % (rank, turn.number))
        if turn.collective == "slow":
            send({"kind": "size", "size_bytes": MIB, "times_us": [1.0], "wrong": 0})
            while True:
                send({"kind": "alive"})
                select.select([], [], [], 0.05)
        if turn.collective == "hang":
            signal.pause()
        if turn.collective == "leave" and rank == 1:
            os._exit(7)
        for size in turn.sizes:
            times = [float(os.getpid()), 1.0 + rank]
            send({"kind": "size", "size_bytes": size, "times_us": times, "wrong": rank})
        send({"kind": "done", "stop": "enough", "largest": 9})


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[int], LegRun]]:
    monkeypatch.setattr(rank_body, "run_rank", echo)
    runs: list[LegRun] = []

    def begin(leg: int) -> LegRun:
        runs.append(LegRun(SPEC, EVERY_NODE_LEGS[leg], []))
        return runs[-1]

    yield begin
    for run in runs:
        run.end()


def take(
    run: LegRun, collective: str = "all_reduce", number: int = 1, limit_s: float = 20
) -> Taken:
    turn = Turn(number, collective, Bounds(0.0, limit_s, 0), (MIB,))
    return run.take(turn, 1.0, lambda size: None)


def pids(taken: Taken) -> float:
    """Return what names the processes of a turn: the larger of their ids."""
    return taken.timed[0].times_us[0]


def test_ranks_stay_between_turns_beside_those_of_another_leg(start: Any) -> None:
    first, second = start(0), start(1)
    turns = [take(first), take(second), take(first, number=2), take(second, number=2)]
    assert [turn.state for turn in turns] == ["done"] * 4
    assert pids(turns[0]) == pids(turns[2]) != pids(turns[1]) == pids(turns[3])
    for turn in turns:
        assert (turn.library, turn.stop, turn.largest) == ("echo", "enough", 9)
        (timed,) = turn.timed
        assert (timed.size_bytes, timed.times_us[1], timed.wrong) == (MIB, 2.0, 1)
    assert ("leg says 1" in turns[1].log, "leg says 1" in turns[0].log) == (True, False)


@pytest.mark.parametrize(
    ("collective", "state", "reason"),
    [
        ("leave", "failed", "rank 1 exited with code 7"),
        ("hang", "hang", "killed after 0 s, before the first size was finished"),
    ],
)
def test_ranks_that_break_are_ended_and_the_next_turn_has_others(
    start: Any, collective: str, state: str, reason: str
) -> None:
    run = start(0)
    before = take(run)
    broken = take(run, collective, limit_s=20 if state == "failed" else 0.4)
    assert (broken.state, broken.reason) == (state, reason)
    assert "leg says nothing" in broken.tail
    assert not alive(pids(before))
    after = take(run)
    assert after.state == "done"
    assert pids(after) != pids(before)


def test_what_was_printed_in_a_turn_is_known_from_what_was_printed_before(start: Any) -> None:
    run = start(0)
    first, second = take(run), take(run, number=2)
    assert "leg says nothing" in first.turn_log
    assert "rank 0 is at turn 1" in first.turn_log
    assert "rank 0 is at turn 2" in second.turn_log
    assert "turn 1" not in second.turn_log
    assert "rank 0 is at turn 1" in second.log


def test_ranks_that_speak_beyond_their_time_are_ended_and_keep_their_sizes(start: Any) -> None:
    run = start(0)
    found = take(run, "slow", limit_s=1.0)
    assert (found.state, found.largest) == ("late", MIB)
    assert found.reason == "data still moved after 1 s, after 1 MiB was finished"
    assert [each.size_bytes for each in found.timed] == [MIB]
    assert take(run).state == "done"


def test_a_rank_that_dies_between_turns_fails_the_next(start: Any) -> None:
    run = start(0)
    pid = int(pids(take(run)))
    os.kill(pid, signal.SIGKILL)
    found = take(run)
    assert found.state == "failed"
    assert "was killed by SIGKILL" in found.reason


def test_the_end_leaves_no_process_and_may_come_twice(start: Any) -> None:
    run = start(0)
    pid = pids(take(run))
    assert run.end() == ("", [])
    assert not alive(pid)
    assert run.end() == ("", [])


def alive(pid: float) -> bool:
    end = time.monotonic() + 5
    while os.path.exists(f"/proc/{pid:.0f}"):
        if time.monotonic() > end:
            return True
        time.sleep(0.01)
    return False
