"""Two members on this machine, spoken to over pipes as the controller does."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hwcheck.results.schema_check import schema_problem
from tests.node.multi_host.local_server import LocalMember, order

pytest.importorskip("torch")

SETTING = ["NCCL_IB_HCA", "mlx5_0", "process environment"]
FAULTS = Path(__file__).parents[2] / "lab" / "torch_faults"


def children(pid: int) -> list[int]:
    """Return every process below one, from /proc."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        parents[int(path.parent.name)] = int(fields[1])
    found = [child for child, parent in parents.items() if parent == pid]
    return [*found, *(below for child in found for below in children(child))]


def wait_until(condition: Any, seconds: float = 15.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[LocalMember, LocalMember, dict[str, Any]]]:
    """Two members that are ready, the second of which damages what it sends on demand."""
    scratch = tmp_path_factory.mktemp("members")
    wrapper = scratch / "python"
    wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={FAULTS} exec {sys.executable} "$@"\n')
    wrapper.chmod(0o755)
    with (
        LocalMember(scratch, "1") as one,
        LocalMember(
            scratch, "2", torch_python=str(wrapper), environment={"NCCL_IB_HCA": "mlx5_0"}
        ) as two,
    ):
        ready = one.hear("ready")["ready"]
        assert schema_problem(ready, "ready") == ""
        assert (ready["interface"], ready["address"], ready["gpus"]) == ("lo", "127.0.0.1", 0)
        assert two.hear("ready")["ready"]["settings"] == [SETTING]
        yield one, two, ready


def both(pair: Any, number: int, **changes: Any) -> list[dict[str, Any]]:
    one, two, ready = pair
    for rank0, member in enumerate((one, two)):
        member.tell(order(number, rank0, ready, **changes))
    answers = [member.hear("answer")["answer"] for member in (one, two)]
    for answer in answers:
        assert schema_problem(answer, "answer") == ""
        assert answer["left_over"] == []
    return answers


def test_orders_follow_each_other_and_torch_is_imported_once(pair: Any) -> None:
    launchers = children(pair[0].process.pid)
    for number in (1, 2):
        for answer in both(pair, number, env={"FLIP": "0"}, sizes=[4096, 1 << 20], iterations=3):
            assert (answer["state"], answer["reason"]) == ("done", "")
            assert [size["size_bytes"] for size in answer["sizes"]] == [4096, 1 << 20]
            assert all(len(size["times_us"]) == 3 for size in answer["sizes"])
            assert all(size["wrong"] == 0 for size in answer["sizes"])
            assert answer["exchanges"] == [], "nobody is asked who sent wrong data when none was"
    assert children(pair[0].process.pid) == launchers, "the ranks are gone, the rest is as it was"


@pytest.mark.parametrize(("number", "leg"), [(20, "site"), (21, "default")])
def test_other_collectives_and_types(pair: Any, number: int, leg: str) -> None:
    asked = {"collective": "alltoall", "dtype": "bfloat16", "leg": leg, "sizes": [1000, 1 << 16]}
    for answer in both(pair, number, env={"FLIP": "0"}, **asked):
        assert (answer["state"], answer["reason"]) == ("done", "")
        assert [size["size_bytes"] for size in answer["sizes"]] == [992, 1 << 16], "whole chunks"
        assert all(size["wrong"] == 0 for size in answer["sizes"])


def test_wrong_data_is_told_with_who_sent_it(pair: Any) -> None:
    one, two = both(pair, 3, env={"FLIP": "1"})
    assert all(size["wrong"] for answer in (one, two) for size in answer["sizes"])
    assert one["exchanges"] == [{"kind": "exchange", "rank": 0, "wrong_from": {"1": 1}}]
    assert two["exchanges"] == [{"kind": "exchange", "rank": 1, "wrong_from": {}}]


def test_a_rank_that_is_stopped_is_seen_and_ended(pair: Any) -> None:
    one, two, ready = pair
    before = set(children(two.process.pid))
    for rank0, member in enumerate((one, two)):
        member.tell(order(4, rank0, ready, deadline_s=4.0, iterations=1000, env={"FLIP": "0"}))
    wait_until(lambda: set(children(two.process.pid)) - before)
    (rank,) = set(children(two.process.pid)) - before
    os.kill(rank, signal.SIGSTOP)
    free, stopped = (member.hear("answer")["answer"] for member in (one, two))
    assert (free["state"], stopped["state"]) == ("hang", "hang")
    assert [each["process"] for each in stopped["ranks"]] == ["T"]
    assert [each["process"] for each in free["ranks"]] != ["T"]
    assert "-- stack of rank 0" in free["log_tail"]
    assert "stuck outside Python" in stopped["log_tail"]
    assert set(children(two.process.pid)) == before
    assert both(pair, 5, env={"FLIP": "0"})[1]["state"] == "done", "the next order is unharmed"


def test_a_partner_that_never_comes_is_a_hang_before_the_first_size(pair: Any) -> None:
    one, _, ready = pair
    one.tell(order(6, 0, ready, deadline_s=2.0))
    answer = one.hear("answer")["answer"]
    assert (answer["state"], answer["reason"]) == ("hang", "before the first size was finished")
    assert answer["ranks"][0]["calls"] == 1, "it came as far as the meeting"


def test_more_ranks_than_can_be_verified_are_refused(pair: Any) -> None:
    one, _, ready = pair
    one.tell(order(7, 0, ready, collective="no_such", world=1))
    answer = one.hear("answer")["answer"]
    assert answer["state"] == "failed"
    assert "no_such" in answer["reason"]


def test_the_end_leaves_nothing_and_reports(pair: Any) -> None:
    one, two, _ = pair
    for member in (one, two):
        below = children(member.process.pid)
        member.tell({"end": True})
        assert member.hear("report")["report"]["results"] == []
        assert member.process.wait(10) == 0
        wait_until(lambda below=below: not any(Path(f"/proc/{pid}").exists() for pid in below))


def test_a_node_that_is_held_refuses_and_when_its_controller_goes_nothing_is_left(
    tmp_path: Path,
) -> None:
    """The control of the refusal is every other test here: a free node is ready."""
    with LocalMember(tmp_path, "3") as member:
        ready = member.hear("ready")["ready"]
        with LocalMember(tmp_path, "3") as second:
            assert "another hwcheck is loading" in second.hear("refused")["reason"]["text"]
            assert second.hear("report")
        member.tell(order(1, 0, ready, deadline_s=60.0))
        below = children(member.process.pid)
        assert len(below) >= 2, "the launcher and its store"
        assert member.process.stdin is not None
        member.process.stdin.close()
        assert member.process.wait(10) == -signal.SIGKILL
        wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below))


@pytest.mark.parametrize(
    ("session", "torch_python", "reason"),
    [
        ({"interface": "nosuch0"}, "", "nosuch0 has no IPv4 address here"),
        ({}, "/no/python", "/no/python cannot be started"),
    ],
)
def test_a_node_that_cannot_take_part_says_why(
    tmp_path: Path, session: dict[str, str], torch_python: str, reason: str
) -> None:
    with LocalMember(tmp_path, "5", session=session, torch_python=torch_python) as member:
        assert reason in member.hear("refused")["reason"]["text"]
        assert member.hear("report")
