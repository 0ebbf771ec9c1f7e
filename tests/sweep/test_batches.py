"""Who is measured at once: few, over racks and feeds, and within the time."""

from __future__ import annotations

from collections import Counter

from hwcheck.sweep.batches import next_batch, planned
from hwcheck.sweep.candidates import Candidate

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
    line = (Candidate("slow", "", 500.0), Candidate("fast", "", 60.0))
    assert [each.host for each in next_batch(line, 2, 100.0, {})] == ["fast"]
    assert next_batch(line, 2, 59.0, {}) == ()


def test_a_plan_keeps_to_the_budget() -> None:
    batches = planned(LINE, 4, 350.0, PLACES)
    assert [len(batch) for batch in batches] == [4, 4, 4]
    assert len({each.host for batch in batches for each in batch}) == 12
    assert planned(LINE, 4, 99.0, PLACES) == ()
