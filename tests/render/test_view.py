from __future__ import annotations

from dataclasses import replace

from hwcheck.render.view import CheckView, host_views
from hwcheck.wire import CheckResult
from tests import factories
from tests.factories import gpu_host, hung, leg, record
from tests.render.example import judged


def _views(*hosts, checks=factories.CHECKS):
    run, judgement, _ = judged(factories.run(*hosts, checks=checks))
    return list(host_views(run, judgement))


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
        ("fail", "42.9 %", "gpu3"),
        ("pass", "100 %", "gpu[0-2,4-7]"),
    ]
    (temperature, _) = _check(view, "temperature_idle").rows
    assert (temperature.value, temperature.subjects) == ("31 to 34 C", "gpu[0-7]")


def test_failing_values_are_never_merged_into_a_range() -> None:
    (view,) = _views(gpu_host("a", temperature_c=88.0))
    assert _check(view, "temperature_idle").rows[0].value == "88 C"
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
    (view,) = _views(record("a", [*answers, CheckResult("temperature_idle", "busy", "in use")]))
    assert _check(view, "temperature_idle").outcome == "inconclusive"


def test_busbw_says_what_became_of_the_default_leg() -> None:
    (view,) = _views(gpu_host("a", [hung(), leg("p2p_off")]))
    assert (view.busbw, view.peak) == ("hangs", None)
    (view,) = _views(gpu_host("a", [factories.wrong()]))
    assert view.busbw == "wrong data (7 elements)"
    (view,) = _views(gpu_host("a", [leg(ranks=1)]))
    assert view.busbw == "one rank, no busbw"
