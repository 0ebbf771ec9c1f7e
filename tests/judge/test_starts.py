"""Legs that did not start, beside the others of their node."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.advise.actions import advise
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.wire import Leg, to_dict
from hwcheck.judge.evidence import counted
from hwcheck.judge.host_case import node_facts
from hwcheck.judge.judge import judge
from hwcheck.judge.legs import start_hang
from hwcheck.judge.records import Finding
from tests.factories import leg, run
from tests.judge.nodes import node

TAIL = "n1:7:9 [0] NCCL INFO Bootstrap: Using eth0\nn1:7:9 [0] NCCL INFO Setting up\n-- stack\n"
SLOW = {
    "state": "not_started",
    "reason": "no communicator after 120 s, before the first size was finished",
    "sizes": (),
    "start_s": 120.0,
    "log_tail": TAIL,
}


def slow(name: str, **changes: Any) -> Leg:
    return leg(name, **{**SLOW, **changes})


def complaints(*legs: Leg) -> set[tuple[str, str, str]]:
    return {
        (f.subject, f.outcome, f.reason.text) for f in findings_of(*legs) if f.outcome != "pass"
    }


def findings_of(*legs: Leg) -> tuple[Finding, ...]:
    whole = run(node("n", legs), checks=("all_reduce",))
    return tuple(
        f
        for f in judge(whole, shipped()).findings
        if f.check == "all_reduce" and f.metric != "busbw"
    )


def test_a_leg_hangs_at_start_where_another_started_in_a_fraction_of_its_time() -> None:
    others = [leg("p2p_off", start_s=5.5), leg("net", 9.0, start_s=6.0)]
    reason = (
        "it hangs at start: no communicator after 120 s, before the first size was finished; "
        "p2p_off started in 5.5 s; NCCL's last line: n1:7:9 [0] NCCL INFO Setting up"
    )
    assert ("leg default", "fail", reason) in complaints(slow("default"), *others)
    whole = run(node("n", [slow("default"), *others]), checks=("all_reduce",))
    assert judge(whole, shipped()).outcome == "fail"
    advised = advise(whole, judge(whole, shipped()), shipped())
    assert advised.actions


def test_where_none_started_nothing_is_known() -> None:
    reason = (
        "the leg did not start: no communicator after 120 s, before the first size was finished"
    )
    complained = complaints(*map(slow, ("default", "p2p_off", "net")))
    assert {
        (f"leg {name}", "inconclusive", reason) for name in ("default", "p2p_off", "net")
    } <= complained
    assert "fail" not in {outcome for _, outcome, _ in complained}


@pytest.mark.parametrize(
    "other",
    [
        leg("p2p_off", start_s=61.0),
        leg("p2p_off"),
        leg("p2p_off", start_s=3.0, state="hang", sizes=()),
        leg("p2p_off", start_s=3.0, collective="broadcast"),
    ],
    ids=["as slow", "of an engine that does not tell", "one that hung", "another collective"],
)
def test_what_says_nothing_about_the_start(other: Leg) -> None:
    assert start_hang(slow("default"), [other]) == ""
    assert start_hang(leg("default", start_s=200.0), [leg("p2p_off", start_s=1.0)]) == ""


def test_a_hang_at_start_counts_as_evidence_and_a_slow_start_does_not() -> None:
    for others, state in (([leg("p2p_off", start_s=5.0)], "hang"), ([slow("p2p_off")], "")):
        record = node("n", [slow("default"), *others])
        (evidence,) = counted(record, node_facts({}, record))
        assert (evidence.legs["default"].state if state else "") == state
        assert ("default" in evidence.problems) == (not state)


def test_legs_of_former_versions_have_no_start() -> None:
    former = to_dict(leg())
    del former["start_s"], former["first_failure"]
    assert Leg.from_dict(former) == leg()
