"""Who has the turn: by age and by suspicion, and nobody waits for ever."""

from __future__ import annotations

from datetime import timedelta

import pytest

from hwcheck.fleet.sweep.candidates import (
    VisitHistory,
    age_text,
    candidates,
    suspicion_of,
    typical_s,
)
from hwcheck.fleet.sweep.levels import LEVELS
from tests.fleet.sweep.builders import NOW, past, visit

NIGHTLY, WEEKLY = LEVELS["nightly"], LEVELS["weekly"]
HOSTS = ("n1", "n2", "n3", "n4", "n5")


def order(known: VisitHistory, hosts: tuple[str, ...] = HOSTS) -> list[tuple[str, str]]:
    return [(each.host, each.reason) for each in candidates(hosts, NIGHTLY, known, NOW)]


def test_the_order_and_its_reasons() -> None:
    known = past(
        visit("n1", 1),
        visit("n2", 2),
        visit("n3", 1, outcome="warn"),
        visit("n4", 8),
        hosts=HOSTS,
        waiting={"n1": NOW - timedelta(days=1)},
    )
    assert order(known) == [
        ("n4", "not measured for 8 d"),
        ("n1", "at work when it was its turn"),
        ("n3", "warned last time"),
        ("n5", "new"),
        ("n2", "measured 2 d ago"),
    ]


def test_who_was_measured_lately_is_not_due_unless_it_came_back() -> None:
    known = past(visit("n1", 0.5), visit("n2", 0.5), back={"n2": "it was down before"})
    assert order(known, ("n1", "n2")) == [("n2", "it was down before")]


def test_a_clock_that_was_set_back_makes_nobody_due_nor_late() -> None:
    known = past(visit("n1", -1))
    assert order(known, ("n1",)) == []
    assert not known.is_late("n1", NIGHTLY, NOW)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "unreachable", "outcome": "inconclusive"},
        {"loaded": False, "outcome": "inconclusive"},
        {"level": ""},
        {"level": "minutes", "loaded": False},
    ],
)
def test_what_did_not_measure_a_host_does_not_count(changes: dict[str, object]) -> None:
    known = past(visit("n1", 3), visit("n1", 0.2, **changes))
    assert [host for host, _ in order(known, ("n1",))] == ["n1"]


def test_what_failed_was_measured_and_a_heavier_level_counts_for_a_lighter() -> None:
    failed = visit("n1", 0.2, outcome="fail", loaded=False)
    assert order(past(failed), ("n1",)) == []
    heavy = past(visit("n1", 0.2, level="weekly"))
    assert order(heavy, ("n1",)) == []
    light = past(visit("n1", 0.2))
    assert [each.host for each in candidates(("n1",), WEEKLY, light, NOW)] == ["n1"]


def test_a_host_with_other_gpus_is_as_good_as_never_measured_but_not_late() -> None:
    known = past(
        visit("n1", 3, level="weekly", boards="aa"),
        visit("n1", 1, boards="bb"),
        first_seen={"n1": NOW - timedelta(days=300)},
    )
    (due,) = candidates(("n1",), WEEKLY, known, NOW)
    assert due.reason == "other GPUs than before"
    assert not known.is_late("n1", WEEKLY, NOW)
    same = past(visit("n1", 3, level="weekly", boards="bb"), visit("n1", 1, boards="bb"))
    assert candidates(("n1",), WEEKLY, same, NOW) == ()


def test_late_is_who_was_not_measured_within_the_stated_time() -> None:
    known = past(visit("n1", 13.9), visit("n2", 14.1), hosts=("n3",))
    assert [host for host in HOSTS[:3] if known.is_late(host, NIGHTLY, NOW)] == ["n2"]
    never = past(hosts=("n3",), first_seen={"n3": NOW - timedelta(days=15)})
    assert never.is_late("n3", NIGHTLY, NOW)
    assert order(never, ("n3",)) == [("n3", "never measured, known for 15 d")]


def test_suspicion() -> None:
    assert suspicion_of([]) == ""
    assert suspicion_of([visit(outcome="pass")]) == ""
    assert suspicion_of([visit(outcome="fail"), visit(outcome="pass")]) == ""
    assert suspicion_of([visit(outcome="pass"), visit(outcome="fail")]) == "failed last time"
    turns = ["pass", "warn", "pass", "fail", "pass", "warn", "pass"]
    assert suspicion_of([visit(outcome=each) for each in turns]) == "flaps: 3 times bad in 7 runs"
    assert suspicion_of([visit(outcome=each) for each in turns[:5]]) == ""
    swapped = [visit(boards="aa"), visit(boards="bb")]
    assert suspicion_of(swapped) == "other GPUs than before"
    assert suspicion_of([*swapped, visit(boards="bb")]) == ""


def test_a_visit_takes_as_long_as_the_longest_of_the_last() -> None:
    own = [visit("n1", 10 - n, duration_s=100.0 + n) for n in range(4)]
    long_ago = visit("n1", 20, duration_s=900.0)
    heavier = visit("n1", 1, level="weekly", duration_s=2000.0)
    cut = visit("n1", 1, state="partial", duration_s=5.0)
    assert typical_s([long_ago, *own, heavier, cut], NIGHTLY) == 900.0
    assert typical_s([long_ago, *own, *own, heavier, cut], NIGHTLY) == 103.0
    assert typical_s([heavier], NIGHTLY) == 0.0
    known = past(visit("n1", 2, duration_s=321.0), hosts=("n2",))
    assert {each.estimate_s for each in candidates(("n1", "n2"), NIGHTLY, known, NOW)} == {321.0}
    (new,) = candidates(("n2",), NIGHTLY, past(hosts=("n2",)), NOW)
    assert new.estimate_s == NIGHTLY.visit_s


def test_ages_in_words() -> None:
    texts = {3: "1m", 3599: "59m", 3600: "1h", 86399: "23h", 86400: "1 d", 9.9 * 86400: "9 d"}
    assert {age_s: age_text(age_s) for age_s in texts} == texts
