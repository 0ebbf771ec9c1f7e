"""What a sweep would do now, and what budget is refused or said to be short."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.errors import UsageError
from hwcheck.fleet.sweep.levels import LEVELS, MINUTE_S
from hwcheck.fleet.sweep.links import LinkCoverage
from hwcheck.fleet.sweep.plans import (
    LevelPlan,
    level_plans,
    refuse_what_never_fits,
    shortfall,
    together_s,
)
from hwcheck.scheduler.records import BUSY, Amount, NodeState
from tests.fleet.sweep.builders import NOW, past, visit

LEVELS_HERE = (LEVELS["weekly"], LEVELS["nightly"])
HOSTS = ("n1", "n2", "n3")
KNOWN = past(visit("n1", 2, level="weekly", duration_s=900.0), hosts=HOSTS)


def planned(
    budget_s: float = 7200.0, states: dict[str, NodeState] | None = None
) -> list[LevelPlan]:
    pasts = dict.fromkeys(LEVELS, KNOWN)
    links = {"weekly": LinkCoverage(LEVELS["weekly"], dict.fromkeys(HOSTS, ("", "")), {}, {})}
    return level_plans(
        LEVELS_HERE, pasts, HOSTS, states or {}, {}, NOW, budget_s, links, drained=False
    )


def test_who_has_a_turn_at_a_heavier_level_has_none_at_a_lighter() -> None:
    weekly, nightly = planned(states={"n3": NodeState(state=BUSY)})
    assert weekly.lines() == ["weekly: batch 1: n2: new", "weekly: not now: n3: busy"]
    assert nightly.lines() == [
        "nightly: batch 1: n1: measured 2 d ago",
        "nightly: not now: n3: busy",
    ]


def test_who_has_no_turn_at_a_heavier_level_has_one_at_a_lighter() -> None:
    weekly, nightly = planned(budget_s=14 * MINUTE_S)
    assert weekly.lines() == [
        "weekly: no time left: n2: new",
        "weekly: no time left: n3: new",
    ]
    assert [[each.host for each in batch] for batch in nightly.batches] == [["n2"], ["n3"], ["n1"]]


def test_a_budget_in_which_no_visit_fits_is_refused() -> None:
    with pytest.raises(UsageError, match="a budget of 3m is too short for one visit: at nightly"):
        refuse_what_never_fits(planned(budget_s=180.0), 180.0)
    refuse_what_never_fits(planned(budget_s=240.0), 240.0)
    everybody = {host: NodeState(state=BUSY) for host in HOSTS}
    refuse_what_never_fits(planned(budget_s=180.0, states=everybody), 180.0)


def test_a_budget_that_does_not_go_round_is_said() -> None:
    _, nightly = planned()
    assert shortfall(nightly.level, nightly.due, 200, 7200.0) == ""
    few = replace(nightly.level, max_unavailable=Amount(count=1))
    text = shortfall(few, nightly.due, 500, 7200.0)
    assert text.startswith("nightly: 500 hosts, 1 at once, 4m each, in 2h, take more sweeps")
    assert shortfall(few, nightly.due, 200, 7200.0) == ""
    assert shortfall(few, (), 500, 7200.0) == ""


def test_hosts_that_were_well_run_together_first_and_leave_time_for_a_visit() -> None:
    known = past(visit("n1", 8, level="weekly"), visit("n2", 8), visit("n3", 1, outcome="fail"))
    level, of_all = LEVELS["weekly"], dict.fromkeys(HOSTS, ("", ""))
    links = {"weekly": LinkCoverage(level, of_all, {}, {})}
    (plan,) = level_plans(
        *((level,), {"weekly": known}, HOSTS, {}, {}, NOW, 7200.0, links), drained=False
    )
    assert plan.together == ("n1", "n2")
    assert plan.lines()[0] == "weekly: pairs and rails over n[1-2]"
    assert plan.batches
    assert together_s(level, 7200.0, plan.due) == 1800.0
    assert together_s(level, 240.0, plan.due) == 40.0  # a visit takes 200 s
    assert together_s(LEVELS["nightly"], 7200.0, plan.due) == 0.0
