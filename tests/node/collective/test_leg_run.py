"""Ranks that stay between turns; what they do in a turn stands in for a collective."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch")

from hwcheck.contract.collective_spec import EVERY_NODE_LEGS, MIB, CollectiveSpec, LegPlan
from hwcheck.node.collective import rank as rank_body
from hwcheck.node.collective.leg_run import LegRun, Taken
from hwcheck.node.collective.rank import Bounds, Turn, turns_of

SPEC = CollectiveSpec(("all_reduce",), 2, 0, 45.0, 1 << 30, grace_s=0.2)
Send = Callable[[dict[str, Any]], None]


def echo(spec: CollectiveSpec, rank: int, store_fd: int, turns_fd: int, send: Send) -> None:
    """Say who this is, once, and answer every turn as it asks."""
    if os.environ.get("NCCL_NET") == "broken":
        raise RuntimeError("no device of this plugin can be used")
    start = spec.collectives[0]
    if start == "slow start":
        select.select([], [], [], 1.0)
    if start != "no communicator":
        send({"kind": "joined", "library": "echo"})
        if spec.gpus and start != "no log":
            os.write(1, b"NCCL INFO comm 0x5 rank %d nranks 2 - Init COMPLETE\n" % rank)
    os.write(1, b"leg says %s\n" % os.environ.get("NCCL_P2P_DISABLE", "nothing").encode())
    for turn in turns_of(turns_fd):
        os.write(1, b"rank %d is at turn %d\n" % (rank, turn.number))
        if turn.collective == "never":
            signal.pause()
        send({"kind": "started"})
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
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., LegRun]]:
    monkeypatch.setattr(rank_body, "run_rank", echo)
    runs: list[LegRun] = []

    def begin(leg: int, **changes: Any) -> LegRun:
        runs.append(LegRun(replace(SPEC, **changes), EVERY_NODE_LEGS[leg], []))
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
        ("hang", "hang", "killed after 1 s, before the first size was finished"),
    ],
)
def test_ranks_that_break_are_ended_and_the_next_turn_has_others(
    start: Any, collective: str, state: str, reason: str
) -> None:
    run = start(0)
    before = take(run)
    broken = take(run, collective, limit_s=20 if state == "failed" else 0.8)
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


@pytest.mark.parametrize("gpus", [0, 2])
def test_the_clock_of_a_turn_starts_with_its_first_verified_run(start: Any, gpus: int) -> None:
    run = start(0, collectives=("slow start",), gpus=gpus)
    first, second = take(run, limit_s=0.3), take(run, number=2, limit_s=0.3)
    assert (first.state, second.state) == ("done", "done")
    assert first.duration_s > first.start_s > 0.9
    assert second.start_s < 0.9


@pytest.mark.parametrize("gpus", [0, 2])
def test_ranks_without_a_communicator_have_not_started(start: Any, gpus: int) -> None:
    run = start(0, collectives=("no communicator",), gpus=gpus, start_s=0.6, connect_s=0.0)
    taken = take(run, "never")
    assert (taken.state, taken.timed) == ("not_started", [])
    assert taken.reason == "no communicator after 1 s, before the first size was finished"
    assert taken.duration_s >= taken.start_s >= 0.6
    assert "-- stack of rank 1" in taken.tail


@pytest.mark.parametrize(("begins", "state"), [("", "hang"), ("no log", "not_started")])
def test_silence_once_nccl_has_a_communicator_is_a_hang(
    start: Any, begins: str, state: str
) -> None:
    limits = {"start_s": 3.0 if state == "hang" else 0.5, "connect_s": 0.5}
    run = start(0, collectives=(begins,), gpus=2, **limits)
    taken = take(run, "never")
    assert taken.state == state
    assert taken.duration_s < 3.0 + 5.0  # stacks and the flight record of two ranks
    assert "before the first size was finished" in taken.reason


def test_a_communicator_that_was_there_before_is_not_waited_for(start: Any) -> None:
    run = start(0, gpus=2, start_s=60.0, connect_s=0.5)
    assert take(run).state == "done"
    taken = take(run, "never", number=2)
    assert (taken.state, taken.start_s < 10.0) == ("hang", True)


def test_the_leg_net_has_a_second_try_over_sockets(
    start: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hwcheck.node.collective.leg_run.rank_environment", broken_plugin)
    run = start(2, gpus=2)
    first = take(run)
    assert (first.state, first.more_env, first.first_failure) == ("failed", {}, "")
    assert "no device of this plugin" in first.reason
    assert run.second_try(first.reason)
    second = take(run)
    assert (second.state, second.more_env) == ("done", {"NCCL_NET": "Socket"})
    assert second.first_failure == first.reason
    assert not run.second_try("and again")
    assert not start(1, gpus=2).second_try("it is not about the network")
    assert not start(2).second_try("gloo has no plugin")


def broken_plugin(spec: CollectiveSpec, leg: LegPlan, rank: int, outside: Any) -> dict[str, str]:
    return {"NCCL_NET": "broken", **os.environ, **leg.env}


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
