"""From the state of one sweep to the next: what goes on, who waits, who is gone."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from hwcheck.contract.reasons import CUT_OFF, GIVEN_UP
from hwcheck.fleet.sweep.levels import LEVELS
from hwcheck.fleet.sweep.night import (
    LevelResult,
    after,
    busy_hosts,
    late_text,
    under_way,
    visit_history,
    visits_in,
    with_hosts,
)
from hwcheck.fleet.sweep.state import SweepState, as_text
from hwcheck.results.run_folder import given_up
from hwcheck.scheduler.records import BUSY, DOWN, DRAINED_BY_OTHER, IDLE, NodeState
from tests import factories
from tests.fleet.sweep.builders import NOW, visit

NIGHTLY = LEVELS["nightly"]
HOSTS = ("n1", "n2", "n3", "n4")


def test_a_sweep_that_was_cut_off_goes_on_until_its_budget_is_over() -> None:
    first, text = under_way(SweepState(), "cluster-1", NOW, 7200.0)
    assert first.id.startswith("cluster-1.20260301T023000Z-")
    assert (text, first.ends) == ("", "2026-03-01T04:30:00Z")
    state = SweepState(under_way=first)
    for later in (timedelta(0), timedelta(hours=1.9)):
        again, text = under_way(state, "cluster-1", NOW + later, 7200.0)
        assert again == first
        assert text.startswith("goes on with the sweep that began at 2026-03-01T02:30:00Z")
    again, text = under_way(state, "cluster-1", NOW + timedelta(hours=2), 7200.0)
    assert again.id != first.id
    assert "was cut off; its budget is over" in text


@pytest.mark.parametrize("jump", [timedelta(days=-1), timedelta(days=1)])
def test_a_clock_that_jumps_a_day_begins_a_new_sweep_and_says_so(jump: timedelta) -> None:
    first, _ = under_way(SweepState(), "cluster-1", NOW, 7200.0)
    again, text = under_way(SweepState(under_way=first), "cluster-1", NOW + jump, 7200.0)
    assert again.began == as_text(NOW + jump)
    assert ("the clock was set back" in text) == (jump < timedelta(0))
    assert text


def test_what_a_sweep_has_visited_is_done_but_for_what_was_cut_off() -> None:
    of = {"sweep": "s1"}
    visits = [
        visit("n1", **of),
        visit("n2", state="lost", outcome="inconclusive", reason_code=CUT_OFF, **of),
        visit("n3", sweep="s0"),
        visit("n4", level="weekly", **of),
        visit("n5", state="unreachable", outcome="inconclusive", **of),
        visit("n6", state="lost", outcome="inconclusive", reason_code=GIVEN_UP, **of),
    ]
    assert [each.host for each in visits_in("s1", NIGHTLY, visits)] == ["n1", "n5"]


def test_hosts_come_and_go_with_the_inventory() -> None:
    state, text = with_hosts(SweepState(), HOSTS, NOW)
    assert (set(state.first_seen), text) == (set(HOSTS), "")
    state = replace(state, waiting={"n1": as_text(NOW)}, away={"n2": DOWN})
    later, text = with_hosts(state, ("n3", "n9"), NOW + timedelta(days=1))
    assert text == "no longer in the inventory: n[1-2,4]"
    assert later.first_seen == {"n3": as_text(NOW), "n9": as_text(NOW + timedelta(days=1))}
    assert (later.waiting, later.away) == ({}, {})


def test_a_clock_that_was_set_back_makes_no_host_wait_for_it() -> None:
    state, _ = with_hosts(SweepState(), ("n1",), NOW)
    back, _ = with_hosts(state, ("n1",), NOW - timedelta(days=300))
    assert back.first_seen == {"n1": as_text(NOW - timedelta(days=300))}


def part(**changes: object) -> LevelResult:
    kept_out = {"n2": NodeState(state=BUSY), "n3": NodeState(state=DRAINED_BY_OTHER, reason="disk")}
    made = LevelResult(NIGHTLY, HOSTS, (visit("n1"),), kept_out=kept_out)
    return replace(made, **changes)  # type: ignore[arg-type]


def test_what_became_of_the_hosts_in_one_line() -> None:
    assert part().text() == (
        "nightly: 4 hosts due, 1 measured; at work: n2; drained by other: n3; "
        "1 left for the next sweep"
    )
    away = visit("n1", state="unreachable", outcome="inconclusive", loaded=False)
    assert (
        "0 measured; at work: n2; drained by other: n3; not measured: n1"
        in part(visits=(away,)).text()
    )


def test_the_late_are_named_with_why() -> None:
    away = visit("n1", state="unreachable", outcome="inconclusive", loaded=False)
    assert late_text(part()) == ""
    assert late_text(part(visits=(away,), late=dict.fromkeys(HOSTS, 9.9e5))) == (
        "nightly: not measured for more than 2w: n1 (unreachable); "
        "n2 (at work when it was its turn); n3 (drained by other); n4 (no time left)"
    )


def test_who_was_at_work_waits_since_the_first_time_and_until_measured() -> None:
    state = after(SweepState(), [part()], NOW)
    assert state.waiting == {"n2": as_text(NOW)}
    assert state.away == {"n3": DRAINED_BY_OTHER}
    assert state.finished["nightly"].at == as_text(NOW)
    assert (state.finished["nightly"].due, state.finished["nightly"].measured) == (4, 1)
    next_night = NOW + timedelta(days=1)
    state = after(state, [part(refused=("n1",), visits=())], next_night)
    assert state.waiting == {"n2": as_text(NOW), "n1": as_text(next_night)}
    state = after(state, [part(visits=(visit("n2"), visit("n3")), kept_out={})], next_night)
    assert state.waiting == {"n1": as_text(next_night)}
    assert state.away == {}


def test_a_host_that_is_back_is_under_suspicion_where_the_scheduler_knows_it() -> None:
    state = SweepState(away={"n1": DOWN, "n2": DOWN, "n3": DOWN, "gone": DOWN})
    states = {"n1": NodeState(state=IDLE), "n2": NodeState(state=DOWN)}
    assert visit_history(state, HOSTS, [], states).back == {"n1": "it was down before"}


def test_the_minutes_leave_who_waits_alone() -> None:
    state = SweepState(waiting={"n1": as_text(NOW)})
    minutes = part(level=LEVELS["minutes"], visits=(visit("n1", level="minutes"),))
    assert after(state, [minutes], NOW).waiting == state.waiting


def test_a_host_says_itself_that_somebody_is_at_work() -> None:
    idle = factories.gpu_host("n1")
    busy = factories.gpu_host("n2")
    assert busy.report is not None
    results = [replace(result, state="busy") for result in busy.report.results[:1]]
    at_work = replace(busy, report=replace(busy.report, results=tuple(results)))
    silent = factories.record("n3", None)
    ended = replace(silent, host="n4", state="lost", reason=given_up("busy: job 7"))
    assert busy_hosts([idle, at_work, silent, ended]) == ("n2", "n4")
