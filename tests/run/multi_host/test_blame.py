from __future__ import annotations

import random
from typing import Any

import pytest

from hwcheck.run.multi_host.blame import PROCESS_STATES, of_failure, of_hang, of_state, of_wrong
from tests.run.multi_host.planted import names

ABORTED = ("rank 3 was killed by SIGABRT", "any other words of an aborted rank")


def failed(reason: str, aborted: bool = False) -> dict[str, Any]:
    return {
        "state": "failed",
        "reason": reason,
        "aborted": aborted,
        "ranks": [],
        "exchanges": [],
    }


def waiting(rank: int, calls: int = 4, process: str = "S") -> dict[str, Any]:
    return {"rank": rank, "process": process, "calls": calls, "done": False}


def hung(*ranks: dict[str, Any]) -> dict[str, Any]:
    return {"state": "hang", "reason": "", "ranks": list(ranks), "exchanges": []}


@pytest.mark.parametrize("letter", PROCESS_STATES)
def test_a_rank_that_stands_still_is_named(letter: str) -> None:
    answers = {"a": hung(waiting(0), waiting(1)), "b": hung(waiting(2, 3, letter), waiting(3))}
    (found,) = of_state(answers)
    assert (found.hosts, found.kind, found.direct) == (("b",), "hang", True)
    assert found.evidence == (f"rank 2 on b {PROCESS_STATES[letter]}",)
    answers["b"]["state"] = "failed"
    assert of_state(answers) == [], "it was on its way out"


@pytest.mark.parametrize("letter", "RSZX")
def test_a_rank_that_waits_or_is_gone_proves_nothing(letter: str) -> None:
    assert of_state({"a": hung(waiting(0)), "b": hung(waiting(1, 3, letter))}) == []


def test_a_rank_that_is_behind_the_others_is_named() -> None:
    answers = {"a": hung(waiting(0)), "b": hung(waiting(1)), "c": hung(waiting(2, 3))}
    (found,) = of_hang(answers)
    assert (found.hosts, found.direct) == (("c",), False), "or the link to it"
    assert found.evidence == ("rank 2 on c began 3 steps, others 4",)


def test_nobody_is_named_when_all_wait_alike_or_most_are_behind() -> None:
    assert of_hang({name: hung(waiting(0)) for name in "abc"}) == []
    ahead = {"a": hung(waiting(0, 5)), "b": hung(waiting(1)), "c": hung(waiting(2))}
    assert of_hang(ahead) == []


@pytest.mark.parametrize(
    "echo",
    [
        "rank 0: RuntimeError: Connection closed by peer [10.77.0.2]:23448",
        "rank 0: RuntimeError: Read error [10.77.0.2]:40324: Connection reset by peer",
        "rank 3: DistBackendError: NCCL error: remote process exited or there was a network error",
        "rank 3: RuntimeError: Timed out waiting 30000ms for recv operation",
        "rank 3: DistBackendError: NCCL error in: x ncclRemoteError: A call failed possibly due to",
        "rank 3: DistBackendError: ...Last error: socketPollConnect: connect to 10.0.0.7<38271>",
        "rank 3: DistBackendError: ...socketProgress: Connection closed by remote peer n7<5012>",
        "rank 3: DistBackendError: ...Last error: socketProgressOpt: Call to recv from n7<5012> "
        "failed : Connection reset by peer",
        *ABORTED,
    ],
)
def test_the_one_that_fails_by_itself_is_named_and_not_its_echo(echo: str) -> None:
    answers = {name: failed(echo, echo in ABORTED) for name in "acd"}
    answers["b"] = failed("rank 1 was killed by SIGKILL")
    (found,) = of_failure(answers)
    assert (found.hosts, found.kind, found.direct) == (("b",), "failed", False)
    assert of_failure({name: answers[name] for name in "acd"}) == []


def test_neighbors_that_their_watchdog_aborted_are_echoes_of_one_that_says_why() -> None:
    answers = {name: failed(ABORTED[0], aborted=True) for name in "ac"}
    answers["b"] = failed("rank 1: OutOfMemoryError: CUDA out of memory")
    answers |= {name: hung(waiting(3)) for name in "defgh"}
    assert [one.hosts for one in of_failure(answers)] == [("b",)]
    answers["b"] = hung(waiting(1))
    answers["c"] = hung(waiting(2))
    assert [one.hosts for one in of_failure(answers)] == [("a",)], "nobody else says why"


def test_a_gpu_that_cannot_reach_its_peer_is_no_echo() -> None:
    answers = {name: failed("Connection reset by peer") for name in "abc"}
    answers["d"] = failed("rank 3: peer access is not supported")
    assert [one.hosts for one in of_failure(answers)] == [("d",)]


def test_when_most_fail_by_themselves_it_is_no_host() -> None:
    reason = "rank 1: ValueError: all_reduce verifies up to 1365 ranks"
    answers = {name: failed(reason) for name in "abc"}
    assert of_failure(answers) == []


def exchanged(ways: dict[tuple[int, int], int], hosts: list[str]) -> dict[str, Any]:
    """Answers of hosts with one rank each; ``ways`` are wrong elements by (sender, receiver)."""
    answers = {}
    for rank, host in enumerate(hosts):
        wrong = {str(source): n for (source, to), n in ways.items() if to == rank}
        answers[host] = {"exchanges": [{"kind": "exchange", "rank": rank, "wrong_from": wrong}]}
    return answers


@pytest.mark.parametrize("amount", range(3, 17))
def test_whose_data_is_wrong(amount: int) -> None:
    hosts = names(amount)
    draw = random.Random(amount)
    for culprit in range(amount):
        others = [rank for rank in range(amount) if rank != culprit]
        for ways in (
            {(culprit, to): draw.randint(1, 9) for to in others},
            {(source, culprit): draw.randint(1, 9) for source in others},
        ):
            found = of_wrong(exchanged(ways, hosts), hosts)
            assert [one.hosts for one in found] == [(hosts[culprit],)]
            assert len(found[0].evidence) == amount - 1
        found = of_wrong(exchanged({(culprit, others[0]): 3}, hosts), hosts)
        assert [set(one.hosts) for one in found] == [{hosts[culprit], hosts[others[0]]}]


def test_between_two_hosts_it_is_the_link() -> None:
    (found,) = of_wrong(exchanged({(0, 1): 7}, ["a", "b"]), ["a", "b"])
    assert found.hosts == ("a", "b")
    assert found.evidence == ("7 wrong elements from a to b",)


def test_within_a_host_it_is_the_host() -> None:
    answers = {
        "a": {"exchanges": [{"kind": "exchange", "rank": 1, "wrong_from": {"0": 5}}]},
        "b": {"exchanges": []},
    }
    (found,) = of_wrong(answers, ["a", "a", "b", "b"])
    assert (found.hosts, found.evidence) == (("a",), ("5 wrong elements from a to a",))


def test_a_rank_that_is_none_is_nobody() -> None:
    answers = {"a": {"exchanges": [{"kind": "exchange", "rank": 0, "wrong_from": {"99": 5}}]}}
    assert of_wrong(answers, ["a", "b"]) == []
