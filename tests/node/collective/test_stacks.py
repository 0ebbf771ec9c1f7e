from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

from hwcheck.node.collective import flight
from hwcheck.node.collective.log import TAIL_CHARACTERS, Log
from hwcheck.node.collective.ranks import RankGroup, wait_until
from hwcheck.node.collective.stacks import remove, shared_segments, tail_with_stacks
from hwcheck.node.json_lines import Send


def sleeper(send: Send) -> None:
    send({"kind": "here"})
    os.read(os.pipe()[0], 1)  # nobody will ever write


def test_the_tail_holds_the_log_before_and_a_stack_of_each_rank() -> None:
    with Log() as log, RankGroup() as group:
        for rank in range(3):
            group.fork(rank, sleeper, {}, log.fd, [])
        for each in group.ranks:
            assert each.read() == [{"kind": "here"}]
        log.write("".join(f"noise {i}\n" for i in range(100)) + "z" * 2 * TAIL_CHARACTERS)
        tail = tail_with_stacks(group, log)
    assert len(tail) <= TAIL_CHARACTERS
    before, *stacks = tail.split("-- stack of rank ")
    assert before.endswith("zzz\n")
    assert [stack[0] for stack in stacks] == ["0", "1", "2"]
    assert all("in sleeper" in stack for stack in stacks)


def with_threads(rank: int) -> Callable[[Send], None]:
    """A rank whose main thread sits deep, beside other threads that sit as deep."""

    def down(depth: int) -> None:
        if depth:
            down(depth - 1)
        else:
            os.read(os.pipe()[0], 1)

    def body(send: Send) -> None:
        for _ in range(4):
            threading.Thread(target=down, args=(40,), daemon=True).start()
        flight.listen(rank, record)
        send({"kind": "here"})
        down(40)

    return body


def record() -> str:
    entries = [{"collective_seq_id": n, "profiling_name": "x" * 200} for n in range(5)]
    return json.dumps({"entries": entries})


def test_eight_ranks_have_the_same_room_and_their_main_threads_come_first() -> None:
    with Log() as log, RankGroup() as group:
        for rank in range(8):
            group.fork(rank, with_threads(rank), {}, log.fd, [])
        for each in group.ranks:
            assert each.read() == [{"kind": "here"}]
        tail = tail_with_stacks(group, log, recorded=True)
    assert len(tail) <= TAIL_CHARACTERS
    stacks = tail.split("-- stack of rank ")[1:]
    assert [stack[0] for stack in stacks] == [str(rank) for rank in range(8)]
    assert min(map(len, stacks)) > 1000
    for stack in stacks:
        assert stack.splitlines()[1].startswith("Current thread"), "the main thread took the signal"
    records = tail.split("-- stack of")[0].split("-- flight record of rank ")[1:]
    assert [record[0] for record in records] == [str(rank) for rank in range(8)]
    assert all(record.rstrip().endswith("x") for record in records), "the newest entries stay"


def test_ranks_that_have_ended_have_neither_stacks_nor_segments() -> None:
    with Log() as log, RankGroup() as group:
        group.fork(0, lambda send: None, {}, log.fd, [])
        assert wait_until(lambda: not group.alive(), 10.0)
        log.write("the end\n")
        assert tail_with_stacks(group, log).strip() == "the end"
        assert shared_segments(group) == set()


def test_what_cannot_be_removed_is_said(tmp_path: Path) -> None:
    there, missing = tmp_path / "there", tmp_path / "missing"
    there.touch()
    left_over = remove({str(there), str(missing)})
    assert [reason.text for reason in left_over] == [
        f"{missing} is left over: No such file or directory"
    ]
    assert not there.exists()
