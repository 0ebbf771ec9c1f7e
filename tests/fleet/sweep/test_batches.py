"""Who is measured at once: few, over racks and feeds, and within the time."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from hwcheck.fleet.sweep.batches import Places, Queue, anywhere, next_batch
from hwcheck.fleet.sweep.candidates import Candidate
from hwcheck.fleet.sweep.levels import LEVELS
from hwcheck.scheduler.records import (
    BUSY,
    DOWN,
    DRAINED,
    DRAINED_BY_OTHER,
    IDLE,
    Amount,
    NodeState,
)

PLACES = {f"n{n}": (f"r{n // 4}", "AB"[n // 8]) for n in range(16)}
LINE = tuple(Candidate(host, "", 100.0) for host in PLACES)


def test_no_more_than_allowed_in_the_order_of_the_line() -> None:
    assert [each.host for each in next_batch(LINE, 3, 1000.0, {})] == ["n0", "n1", "n2"]


def test_racks_and_feeds_bear_their_share() -> None:
    for at_once in (1, 2, 4, 8, 16):
        batch = next_batch(LINE, at_once, 1000.0, PLACES)
        assert len(batch) == at_once
        racks, feeds = (Counter(PLACES[each.host][n] for each in batch) for n in (0, 1))
        assert max(racks.values()) <= -(-at_once // 4)
        assert max(feeds.values()) <= -(-at_once // 2)


def test_one_feed_alone_never_gets_the_share_of_two() -> None:
    of_a = [each for each in LINE if PLACES[each.host][1] == "A"]
    assert len(next_batch(of_a, 8, 1000.0, PLACES)) == 4


def test_hosts_of_no_known_rack_are_not_held_back() -> None:
    places = {"n0": ("r0", ""), "n1": ("", ""), "n2": ("", ""), "n3": ("r1", "")}
    assert len(next_batch(LINE[:4], 4, 1000.0, places)) == 4


def test_who_takes_too_long_lets_the_next_go_first() -> None:
    both = (Candidate("slow", "", 500.0), Candidate("fast", "", 60.0))
    assert [each.host for each in next_batch(both, 2, 100.0, {})] == ["fast"]
    assert next_batch(both, 2, 59.0, {}) == ()


def queue(level: str = "nightly", *, drained: bool = False) -> Queue:
    four = replace(LEVELS[level], max_unavailable=Amount(count=4))
    return Queue(LINE, four, 16, PLACES, drained=drained)


def test_everybody_has_one_turn() -> None:
    of_all = queue()
    batches = list(iter(lambda: of_all.next({}, 100.0), ()))
    assert [len(batch) for batch in batches] == [4, 4, 4, 4]
    assert {each.host for batch in batches for each in batch} == set(PLACES)
    assert (of_all.waiting, of_all.kept_out) == ((), {})
    assert queue().next({}, 99.0) == ()


AWAY = {
    "n0": NodeState(state=BUSY),
    "n4": NodeState(state=IDLE),
    "n5": NodeState(state=DRAINED),
    "n6": NodeState(state=DRAINED, at_work=True),
    "n7": NodeState(state=DRAINED_BY_OTHER, reason="disk"),
    "n8": NodeState(state=DOWN),
    "n9": NodeState(state=IDLE, wanted="planned for a job"),
}


@pytest.mark.parametrize(
    ("level", "drained", "kept_out"),
    [
        ("nightly", False, {"n0", "n6", "n7", "n8", "n9"}),
        ("nightly", True, {"n0", "n6", "n8", "n9"}),
        ("minutes", False, {"n7", "n8"}),
    ],
)
def test_who_is_at_work_or_away_is_left_alone(
    level: str, drained: bool, kept_out: set[str]
) -> None:
    of_all = queue(level, drained=drained)
    batches = list(iter(lambda: of_all.next(AWAY, 100.0), ()))
    assert set(of_all.kept_out) == kept_out
    assert {each.host for batch in batches for each in batch} == set(PLACES) - kept_out


def test_who_gets_a_job_while_the_sweep_goes_on_is_left_alone() -> None:
    of_all = queue()
    first = of_all.next({}, 100.0)
    taken = dict.fromkeys(PLACES, NodeState(state=BUSY))
    assert of_all.next(taken, 100.0) == ()
    assert set(of_all.kept_out) == set(PLACES) - {each.host for each in first}


@pytest.mark.parametrize(
    ("places", "at_once", "most"),
    [
        ({"a": ("", ""), "b": ("", "")}, 8, 8),
        ({"a": ("r1", "f1"), "b": ("r1", "f2")}, 8, 4),
        ({"a": ("r1", "f1"), "b": ("r2", "f2"), "c": ("r3", "f1")}, 8, 3),
        ({"a": ("r1", ""), "b": ("r2", "")}, 1, 1),
    ],
)
def test_a_second_visit_begins_on_one_share_of_hosts_wherever_they_are(
    places: Places, at_once: int, most: int
) -> None:
    assert anywhere(places, at_once) == most
