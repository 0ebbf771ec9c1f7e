from __future__ import annotations

import os

import pytest

from hwcheck.node import json_lines
from hwcheck.node.collective.held_ranks import HeldRanks
from hwcheck.node.collective.ranks import wait_until
from hwcheck.node.json_lines import Send


def echo(orders_fd: int, send: Send) -> None:
    """Send every order back, and end with the empty one."""
    orders = json_lines.Reader(orders_fd)
    while order := orders.next():
        os.write(1, b"told %d\n" % order["number"])
        send({"number": order["number"], "name": os.environ["NAME"]})


def held() -> HeldRanks:
    return HeldRanks([(n, echo, {"NAME": f"rank{n}"}) for n in (4, 5)], [], recorded=False)


def test_ranks_stay_for_their_orders_and_end_after_the_last() -> None:
    ranks = held()
    for number in (1, 2):
        ranks.tell({"number": number})
        answers = [each.read() for each in ranks.group.ranks]
        assert answers == [[{"number": number, "name": f"rank{n}"}] for n in (4, 5)]
    assert ranks.log.whole().count("told 2\n") == 2
    assert ranks.end("done") == ("", [])
    assert [each.status for each in ranks.group.ranks] == [0, 0], "they were not killed"
    assert ranks.end("done") == ("", []), "there is nothing left to end"


def test_ranks_that_hang_are_killed_with_their_stacks_and_the_whole_log_is_kept(
    capfd: pytest.CaptureFixture[str],
) -> None:
    ranks = held()
    ranks.tell({"number": 1})
    for each in ranks.group.ranks:
        each.read()
    tail, left_over = ranks.end("hang", "log of a test")
    assert left_over == []
    assert [f"stack of rank {n}" in tail for n in (4, 5)] == [True, True]
    assert [each.ending() for each in ranks.group.ranks] == ["was killed by SIGKILL"] * 2
    assert capfd.readouterr().err.startswith("-- log of a test\n")


def test_a_rank_that_has_ended_costs_the_others_no_order(capfd: pytest.CaptureFixture[str]) -> None:
    ranks = held()
    gone, other = ranks.group.ranks
    os.kill(gone.pid, 9)
    assert wait_until(lambda: len(ranks.group.alive()) == 1, 10.0)
    ranks.tell({"number": 7})
    assert other.read() == [{"number": 7, "name": "rank5"}]
    assert "rank 4 is not there any more" in capfd.readouterr().err
    assert ranks.end("failed", "")[0].count("told 7") == 1
