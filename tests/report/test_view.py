from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.advise.assessment import Assessment
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import COLLECTIVES, LEG_STATES, CheckResult
from hwcheck.report.view import (
    LEG_WORDS,
    CheckView,
    busbw_range,
    collective_order,
    host_views,
    leg_figure,
    transport,
)
from hwcheck.results.run_folder import HostRecord
from tests import factories
from tests.factories import gpu_host, hung, leg, record
from tests.report.example import judged


def _views(*hosts, checks=factories.CHECKS):
    return list(host_views(judged(factories.run(*hosts, checks=checks))))


def _check(view, name: str) -> CheckView:
    (found,) = [check for check in view.checks if check.check == name]
    return found


def test_worst_hosts_first_then_inventory_order() -> None:
    views = _views(gpu_host("b"), gpu_host("a"), gpu_host("c", power_limit_w=(1, 300.0)))
    assert [view.name for view in views] == ["c", "b", "a"]


def test_equal_passing_samples_are_one_row_and_bad_ones_stand_alone() -> None:
    (view,) = _views(gpu_host("a", power_limit_w=(3, 300.0)))
    rows = [row for row in _check(view, "power_cap").rows if row.metric == "power_limit_percent"]
    assert [(row.outcome, row.value, row.subjects) for row in rows] == [
        ("fail", "300 of 700 W, 43 %", "gpu3"),
        ("pass", "100 %", "gpu[0-2,4-7]"),
    ]
    (temperature, _) = _check(view, "temperature_idle").rows
    assert (temperature.value, temperature.subjects) == ("31 to 34 C", "gpu[0-7]")


def test_failing_values_are_never_merged_into_a_range() -> None:
    (view,) = _views(gpu_host("a", temperature_c=88.0))
    assert _check(view, "temperature_idle").rows[0].value.startswith("88 C, at most ")
    host = gpu_host("a")
    results = tuple(
        replace(
            result,
            samples=tuple(
                replace(s, value=80 + int(s.subject[3:])) if s.metric == "temperature_c" else s
                for s in result.samples
            ),
        )
        for result in host.report.results
    )
    (view,) = _views(replace(host, report=replace(host.report, results=results)))
    bad = [row for row in _check(view, "temperature_idle").rows if row.outcome == "fail"]
    assert len(bad) == 8


def test_not_applicable_is_apart_and_never_a_pass() -> None:
    (view,) = _views(record("cpu", factories.cpu_results()))
    assert {check.outcome for check in view.checks[1:]} == {"not applicable"}
    assert view.checks[0].exercise
    assert view.busbw.endswith("(exercise: gloo on the CPU)")


def test_a_check_without_an_answer_is_inconclusive() -> None:
    (view,) = _views(record("a", None, reason="no answer"))
    assert {check.outcome for check in view.checks} == {"inconclusive"}
    assert view.checks[0].reason == "no answer"
    answers = factories.results([leg()])[:-1]
    (view,) = _views(
        record(
            "a", [*answers, CheckResult("temperature_idle", "busy", Reason("at_work", "in use"))]
        )
    )
    assert _check(view, "temperature_idle").outcome == "inconclusive"


def test_busbw_says_what_became_of_the_default_leg() -> None:
    (view,) = _views(gpu_host("a", [hung(), leg("p2p_off")]))
    assert (view.busbw, view.peaks) == ("hangs", ())
    (view,) = _views(gpu_host("a", [factories.wrong()]))
    assert view.busbw == "wrong data (7 elements)"
    (view,) = _views(gpu_host("a", [leg(ranks=1)]))
    assert view.busbw == "one rank, no busbw"


def _both(host: str, reduce: float, others: float) -> HostRecord:
    """A host with two collectives under two legs."""
    pairs = [[leg(peak_gbps=peak), leg("p2p_off", 20.0)] for peak in (reduce, others)]
    others_legs = tuple(map(factories.as_alltoall, pairs[1]))
    alltoall = CheckResult("alltoall", "done", legs=others_legs)
    return record(host, [alltoall, *factories.results(pairs[0])], gpus=factories.gpu_facts())


def test_of_several_collectives_those_that_decide_about_p2p_stand_in_the_line() -> None:
    host = _both("a", 450.0, 300.0)
    more = replace(leg(peak_gbps=7.0), collective="sendrecv")
    results = (CheckResult("sendrecv", "done", legs=(more,)), *host.report.results)
    host = replace(host, report=replace(host.report, results=results))
    wanted = "all_reduce 446.5 GB/s at 1 GiB, alltoall 297.7 GB/s at 1 GiB"
    (view,) = _views(host)
    assert view.busbw == wanted
    assert [name for name, _ in view.peaks] == ["all_reduce", "alltoall"]


def test_several_hosts_give_a_range_for_each_collective() -> None:
    views = _views(_both("a", 450.0, 300.0), _both("b", 440.0, 310.0))
    assert busbw_range(views) == (
        "all_reduce 436.6 to 446.5 GB/s at 1 GiB; alltoall 297.7 to 307.6 GB/s at 1 GiB"
    )


def test_the_checks_of_a_host_are_made_when_they_are_shown(shown: Assessment) -> None:
    views = list(host_views(shown))
    passed = [view for view in views if view.verdict.outcome == "pass"]
    assert [view.why for view in passed] == ["", ""]
    assert not any("checks" in vars(view) for view in passed)
    assert not any("rows" in vars(check) for check in passed[0].checks)


def test_every_state_of_a_leg_has_words() -> None:
    assert set(LEG_WORDS) == set(LEG_STATES)


def test_those_that_decide_about_peer_access_come_first() -> None:
    assert sorted(["nosuch", *reversed(COLLECTIVES)], key=collective_order) == [
        *COLLECTIVES,
        "nosuch",
    ]


def test_a_leg_that_did_not_engage_has_no_figure() -> None:
    assert leg_figure(leg(state="not_engaged")) == "did not use what it is to measure"


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({"P2P/CUMEM": 96, "gdrdma": 0, "nvls": True}, "P2P/CUMEM 96, nvls yes"),
        ({}, ""),
        ({f"NET/{i}": 1 for i in range(50)}, "NET/11 1"),
    ],
)
def test_the_way_of_the_data_in_words(facts: dict[str, Any], words: str) -> None:
    assert transport(leg(transport=facts)).endswith(words)
