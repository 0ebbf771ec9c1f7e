"""Which hosts run together: every class of links is covered over the nights."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from itertools import combinations

from hwcheck.results.multi_host import MultiHostRecord, MultiHostRun
from hwcheck.sweep.pairs import (
    LONG_AGO,
    Pair,
    class_ages,
    link_class,
    measured_pairs,
    next_group,
)
from tests.sweep.builders import NOW

HOSTS = [f"n{n:02}" for n in range(48)]
PLACES = {host: (f"r{n // 8}", "") for n, host in enumerate(HOSTS)}
MOST = 6
AB = dict.fromkeys("ab", ("", ""))


def run(*hosts: str, why: str = "pairs", state: str = "done") -> MultiHostRun:
    return MultiHostRun(why, 0, hosts, "all_reduce", len(hosts), state)


def test_what_was_measured_together_and_when() -> None:
    runs = (
        run("a", "b"),
        run("a", "c", state="hang"),
        run("a", "b", "c"),
        run("b", "c", why="again"),
    )
    old = MultiHostRecord(("pairs",), ("a", "b", "c"), runs=(run("b", "c"),))
    new = MultiHostRecord(("pairs",), ("a", "b", "c"), runs=runs)
    before = NOW - timedelta(days=9)
    assert measured_pairs([(NOW, new), (before, old)]) == {
        frozenset("ab"): NOW,
        frozenset("bc"): before,
    }


def test_nobody_runs_alone() -> None:
    assert next_group([], 4, {}, {}, NOW) == ()
    assert next_group(["a"], 4, {}, {}, NOW) == ()
    assert next_group(["a", "b"], 1, {}, AB, NOW) == ()
    assert set(next_group(["a", "b"], 4, {}, AB, NOW)) == {"a", "b"}


def test_the_first_group_is_of_as_many_racks_as_it_has_hosts() -> None:
    group = next_group(HOSTS, MOST, {}, PLACES, NOW)
    classes = {link_class(frozenset(pair), PLACES) for pair in combinations(group, 2)}
    assert len(group) == MOST
    assert len(classes) >= 11, classes  # of 15 pairs; one rack twice measures within a rack


def nights_to_cover(seed: int, places: dict[str, tuple[str, str]], *, at_random: bool) -> int:
    """Return after how many nights every class was measured, with half of the hosts at work."""
    dice, measured = random.Random(seed), dict[Pair, datetime]()
    for night in range(1, 200):
        free = sorted(dice.sample(HOSTS, len(HOSTS) // 2))
        at = NOW + timedelta(days=night)
        group = next_group(free, MOST, measured, places, at)
        if at_random:
            group = tuple(dice.sample(free, MOST))
        measured |= {frozenset(pair): at for pair in combinations(group, 2)}
        if LONG_AGO not in class_ages(measured, places).values():
            return night
    return 200


def test_every_class_is_covered_over_the_nights_and_sooner_than_by_chance() -> None:
    of_plan = [nights_to_cover(seed, PLACES, at_random=False) for seed in range(10)]
    by_chance = [nights_to_cover(seed, PLACES, at_random=True) for seed in range(10)]
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


def test_a_pair_with_a_host_that_is_gone_covers_no_class() -> None:
    ages = class_ages({frozenset(("a", "gone")): NOW}, AB)
    assert ages == {frozenset([""]): LONG_AGO}
