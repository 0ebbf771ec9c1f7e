"""Which hosts run together: every class of links is covered over the nights."""

from __future__ import annotations

import math
import random
from collections import Counter
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import combinations

import pytest

from hwcheck.contract.reasons import CUT_OFF, GIVEN_UP
from hwcheck.fleet.sweep.levels import DAY_S, LEVELS, MINUTE_S
from hwcheck.fleet.sweep.links import (
    LONG_AGO,
    ROUND_S,
    SHARE,
    LinkCoverage,
    Pair,
    can_run_together,
    class_ages,
    classes,
    coverage_text,
    late_hosts,
    link_class,
    links_of,
    measured_links,
    next_group,
)
from hwcheck.results.multi_host import MultiHostRecord, MultiHostRun
from hwcheck.scheduler.records import Amount
from tests.fleet.sweep.builders import NOW, visit

HOSTS = [f"n{n:02}" for n in range(48)]
PLACES = {host: (f"r{n // 8}", "") for n, host in enumerate(HOSTS)}
MOST = 6
AB = dict.fromkeys("ab", ("", ""))
WEEKLY, MONTHLY = LEVELS["weekly"], LEVELS["monthly"]


def run(*hosts: str, why: str = "pairs", state: str = "done") -> MultiHostRun:
    return MultiHostRun(why, 0, hosts, "all_reduce", len(hosts), state, duration_s=20.0)


def record(*runs: MultiHostRun) -> MultiHostRecord:
    return MultiHostRecord(("pairs",), ("a", "b", "c"), runs=runs)


def test_what_was_measured_together_and_when() -> None:
    new = record(
        run("a", "b"),
        run("a", "c", state="hang"),
        run("a", "b", "c"),
        run("b", "c", why="again"),
        run("a", "b", "c", why="all"),
        run("a", "b", "d", why="all", state="failed"),
    )
    before = NOW - timedelta(days=9)
    records = [(NOW, new), (before, record(run("b", "c")))]
    assert measured_links(records, "pairs") == {
        frozenset("ab"): NOW,
        frozenset("ac"): NOW,
        frozenset("bc"): before,
    } | {frozenset("abc"[:2]): NOW, frozenset(("b", "c")): NOW}
    assert measured_links(records, "all") == dict.fromkeys(map(frozenset, ("ab", "ac", "bc")), NOW)


def test_nobody_runs_alone() -> None:
    assert next_group([], 4, {}, {}, NOW) == ()
    assert next_group(["a"], 4, {}, AB, NOW) == ()
    assert next_group(["a", "b"], 1, {}, AB, NOW) == ()
    assert set(next_group(["a", "b"], 4, {}, AB, NOW)) == {"a", "b"}


def test_the_first_group_is_of_as_many_racks_as_it_has_hosts() -> None:
    group = next_group(HOSTS, MOST, {}, PLACES, NOW)
    of_group = {link_class(pair, PLACES) for pair in combinations(group, 2)}
    assert len(group) == len(set(group)) == MOST
    assert len(of_group) >= 11, of_group  # of 15 pairs; one rack twice measures within a rack


@pytest.mark.parametrize("most", [2, 3, 6, 12, 24])
def test_each_power_feed_and_each_rack_has_its_share_of_a_group(most: int) -> None:
    feeds = {host: (f"r{n // 8}", f"f{n // 24}") for n, host in enumerate(HOSTS)}
    # All that was measured is on the first feed's racks, or nothing is: both would be of one feed.
    pairs = combinations(HOSTS[:24], 2)
    for measured in ({}, dict.fromkeys(map(frozenset, pairs), NOW)):
        group = next_group(HOSTS, most, measured, feeds, NOW)
        assert len(group) == most
        for place, share in ((0, most / 6), (1, most / 2)):
            most_of_one = max(Counter(feeds[host][place] for host in group).values())
            assert most_of_one <= max(2, math.ceil(share)), (place, group)


def test_a_link_within_a_rack_is_measured_where_the_rack_is_all_of_its_feed() -> None:
    places = {"a": ("r1", "f1"), "b": ("r1", "f1"), "c": ("r2", "f2"), "d": ("r2", "f2")}
    measured: dict[Pair, datetime] = {}
    for night in range(4):
        at = NOW + timedelta(days=night)
        group = next_group(list(places), 2, measured, places, at)
        measured |= {frozenset(pair): at for pair in combinations(group, 2)}
    assert LONG_AGO not in class_ages(measured, places).values()


def nights_to_cover(seed: int, *, at_random: bool) -> int:
    """Return after how many nights every class was measured, with half of the hosts at work."""
    dice, measured = random.Random(seed), dict[Pair, datetime]()
    for night in range(1, 200):
        free = sorted(dice.sample(HOSTS, len(HOSTS) // 2))
        at = NOW + timedelta(days=night)
        group = next_group(free, MOST, measured, PLACES, at)
        if at_random:
            group = tuple(dice.sample(free, MOST))
        measured |= {frozenset(pair): at for pair in combinations(group, 2)}
        if LONG_AGO not in class_ages(measured, PLACES).values():
            return night
    return 200


def test_every_class_is_covered_over_the_nights_and_sooner_than_by_chance() -> None:
    of_plan = [nights_to_cover(seed, at_random=False) for seed in range(10)]
    by_chance = [nights_to_cover(seed, at_random=True) for seed in range(10)]
    assert max(of_plan) <= 6, of_plan  # 21 classes of 6 racks, at most 15 pairs a night
    assert sum(of_plan) < sum(by_chance) / 2, (of_plan, by_chance)


def test_without_racks_every_pair_has_its_turn() -> None:
    few = HOSTS[:6]
    measured: dict[Pair, datetime] = {}
    for night in range(12):
        at = NOW + timedelta(days=night)
        group = next_group(few, 3, measured, dict.fromkeys(few, ("", "")), at)
        measured |= {frozenset(pair): at for pair in combinations(group, 2)}
    assert len(measured) == 15


def test_the_classes_are_those_of_which_there_is_a_link() -> None:
    places = {"a": ("r1", ""), "b": ("r1", ""), "c": ("r2", "")}
    assert set(classes(places)) == {frozenset(("r1",)), frozenset(("r1", "r2"))}
    assert classes({"a": ("r1", "")}) == []
    ages = class_ages({frozenset(("a", "gone")): NOW}, AB)
    assert ages == {frozenset([""]): LONG_AGO}


def links(measured: dict[Pair, datetime] | None = None, days: float = 0.0) -> LinkCoverage:
    """The links of six racks that are known for so many days."""
    since = dict.fromkeys(classes(PLACES), NOW - timedelta(days=days))
    return LinkCoverage(WEEKLY, PLACES, measured or {}, since)


def test_a_class_is_due_and_late_by_its_level() -> None:
    pair = frozenset((HOSTS[0], HOSTS[8]))
    of = link_class(pair, PLACES)
    for age_days, due, late in ((6.0, False, False), (7.0, True, False), (22.0, True, True)):
        known = links({pair: NOW - timedelta(days=age_days)}, days=30)
        assert (of in known.due(NOW), of in known.late(NOW)) == (due, late)
    assert links(days=20).late(NOW) == []
    assert len(links(days=22).late(NOW)) == 21


def test_a_class_is_known_since_its_second_host() -> None:
    places = {"a": ("r1", ""), "b": ("r1", ""), "c": ("r2", "")}
    seen = {host: NOW - timedelta(days=days) for host, days in (("a", 90), ("b", 5), ("c", 30))}
    assert links_of(WEEKLY, places, [], seen).since == {
        frozenset(("r1",)): seen["b"],
        frozenset(("r1", "r2")): seen["c"],
    }


def test_late_links_are_named_and_whose_they_are() -> None:
    places = {"a": ("r1", ""), "b": ("r1", ""), "c": ("r2", ""), "d": ("r3", "")}
    late = [frozenset(("r1",)), frozenset(("r1", "r2"))]
    assert late_hosts(late, WEEKLY, places) == {
        "a": "weekly: not measured for more than 3w: within its rack, to r2",
        "b": "weekly: not measured for more than 3w: within its rack, to r2",
        "c": "weekly: not measured for more than 3w: to r1",
    }
    assert late_hosts([frozenset([""])], WEEKLY, AB)["a"].endswith("3w: to other hosts")
    of_two = {host: PLACES[host] for host in HOSTS[:9]}
    since = dict.fromkeys(classes(of_two), NOW - timedelta(days=30))
    known = LinkCoverage(WEEKLY, of_two, {frozenset(HOSTS[:2]): NOW}, since)
    assert coverage_text(known, NOW) == (
        "weekly: links: 1 of 2 classes measured within 3w; not measured for too long: r0 to r1"
    )
    assert coverage_text(LinkCoverage(WEEKLY, {"a": ("", "")}, {}, {}), NOW) == ""


def test_a_group_is_as_large_as_time_and_bound_allow() -> None:
    known = LinkCoverage(replace(WEEKLY, max_unavailable=Amount(count=20)), PLACES, {}, {})
    for left_s in (0.0, 11 * ROUND_S, 12 * ROUND_S, 20 * ROUND_S, 1000 * ROUND_S):
        most = known.most(left_s)
        assert most <= 20
        assert most < 2 or known.takes_s(most) <= left_s
        assert len(known.next_group(HOSTS, left_s, NOW)) == (most if most > 1 else 0)
    assert known.most(1000 * ROUND_S) == 20
    slow = links_of(WEEKLY, PLACES, [(NOW, record(replace(run("a", "b"), duration_s=90.0)))], {})
    assert slow.round_s == 90.0
    whole = LinkCoverage(replace(MONTHLY, max_unavailable=Amount(count=20)), PLACES, {}, {})
    assert whole.most(SHARE * MONTHLY.budget_s) == 20


def test_a_bound_of_one_host_lets_nobody_run_together_and_a_default_two() -> None:
    assert [WEEKLY.together(hosts) for hosts in (1, 8, 100)] == [1, 2, 10]
    one = replace(WEEKLY, max_unavailable=Amount(count=1), stated=True)
    assert one.together(48) == 1
    text = LinkCoverage(one, PLACES, {}, {}).shortfall()
    assert text.startswith("weekly: no two hosts run together: max_unavailable 1 and a quarter of")


@pytest.mark.parametrize(("at_once", "enough"), [(2, False), (6, True)])
def test_classes_that_take_more_nights_than_there_are_are_said(at_once: int, enough: bool) -> None:
    level = replace(WEEKLY, max_unavailable=Amount(count=at_once), budget_s=60 * MINUTE_S)
    text = LinkCoverage(level, PLACES, {}, {}).shortfall()
    assert text == "" if enough else "21 classes of links, 2 hosts together, take 21 sweeps" in text


def test_nothing_runs_together_while_no_class_is_due() -> None:
    measured = {frozenset(pair): NOW - timedelta(days=1) for pair in combinations(HOSTS, 2)}
    assert links(measured).next_group(HOSTS, DAY_S, NOW) == ()
    old = {**measured, frozenset(HOSTS[:2]): NOW - timedelta(days=8)}
    assert links(old).next_group(HOSTS, DAY_S, NOW) == ()  # others of its class are newer
    assert links().next_group(HOSTS[:1], DAY_S, NOW) == ()


def test_who_was_not_well_runs_alone() -> None:
    away = {"state": "unreachable", "outcome": "inconclusive"}
    visits = {
        "well": [visit("well", 3, outcome="fail"), visit("well", 1)],
        "bad": [visit("bad", 3), visit("bad", 1, outcome="fail")],
        "away": [visit("away", 1, **away)],
        "job": [visit("job", 2), visit("job", 1, state="lost", reason_code=GIVEN_UP)],
        "cut": [visit("cut", 2), visit("cut", 1, state="lost", reason_code=CUT_OFF)],
    }
    well = {host for host in (*visits, "new") if can_run_together(host, visits)}
    assert well == {"well", "job", "cut"}


def test_a_thousand_hosts_take_no_time() -> None:
    many = {f"n{n}": (f"r{n // 32}", "") for n in range(1000)}
    assert len(next_group(list(many), 40, {}, many, NOW)) == 40
