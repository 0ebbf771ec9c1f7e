from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree as ET

from hwcheck.advise.assessment import Assessment, assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import Reason
from hwcheck.report.junit import junit
from hwcheck.report.words import EXERCISE
from hwcheck.results.multi_host import MultiHostRecord, fabric_between
from tests import factories
from tests.factories import CHECKS, gpu_host
from tests.report.example import judged


def _suites(result: Assessment) -> dict[str, ET.Element]:
    return {suite.get("name", ""): suite for suite in ET.fromstring(junit(result))}


def _case(suite: ET.Element, name: str) -> ET.Element:
    (found,) = [case for case in suite.iter("testcase") if case.get("name") == name]
    return found


def test_a_suite_for_each_host_and_a_case_for_each_check(shown: Assessment) -> None:
    suites = _suites(shown)
    assert [name for name in suites if name] == [f"node0{i}" for i in range(1, 7)]
    for name, suite in suites.items():
        if name:
            assert [case.get("name") for case in suite.iter("testcase")] == list(CHECKS)


def test_a_failure_names_the_figure_and_the_limit(shown: Assessment) -> None:
    failure = _case(_suites(shown)["node03"], "power_cap").find("failure")
    assert failure is not None
    assert "400 of 700 W, 57 %" in failure.get("message", "")
    assert "limit" in failure.get("message", "")


def test_the_message_of_a_failure_is_of_what_failed() -> None:
    host = gpu_host("a", power_limit_w=(3, 300.0))
    assert host.report is not None
    answers = tuple(
        replace(
            answer, state="could_not_measure", reason=Reason("not_measured", "gpu5 did not answer")
        )
        if answer.check == "power_cap"
        else answer
        for answer in host.report.results
    )
    half = replace(host, report=replace(host.report, results=answers))
    failure = _case(_suites(judged(factories.run(half)))["a"], "power_cap").find("failure")
    assert failure is not None
    assert failure.get("message", "").startswith(
        "power_limit_percent 300 of 700 W, 43 % of gpu3; limit: "
    )
    assert "gpu5 did not answer" in (failure.text or "")


def test_a_fabric_that_is_bad_is_a_failure_beside_the_hosts() -> None:
    run = factories.run(gpu_host("a"), gpu_host("b"))
    between = fabric_between((("a",), ("b",)), "slow")
    record = MultiHostRecord(("all",), ("a", "b"), unresolved=(between,), finished=True)
    root = ET.fromstring(junit(assess(run, shipped(), record)))
    assert (root.get("failures"), root.get("errors")) == ("1", "0")
    (failure,) = root.iter("failure")
    assert failure.get("message") == between.text
    assert ET.fromstring(junit(assess(run, shipped()))).get("failures") == "0", "the control"


def test_a_hang_carries_its_log(shown: Assessment) -> None:
    failure = _case(_suites(shown)["node05"], "all_reduce").find("failure")
    assert failure is not None
    assert "no sign of life" in (failure.text or "")


def test_what_could_not_be_measured_is_an_error(shown: Assessment) -> None:
    suite = _suites(shown)["node04"]
    assert suite.get("errors") == str(len(CHECKS))
    assert suite.get("failures") == "0"
    error = _case(suite, "driver").find("error")
    assert error is not None
    assert "no answer" in error.get("message", "")


def test_not_applicable_is_skipped_and_the_exercise_is_marked(cpu_only: Assessment) -> None:
    suite = _suites(cpu_only)["localhost"]
    assert (suite.get("skipped"), suite.get("errors"), suite.get("failures")) == ("6", "0", "0")
    output = _case(suite, "all_reduce").find("system-out")
    assert output is not None
    assert EXERCISE in (output.text or "")


def test_a_warning_passes_and_is_written_down() -> None:
    suite = _suites(judged(factories.run(gpu_host("a", persistence_mode=False))))["a"]
    case = _case(suite, "persistence_mode")
    assert case.find("failure") is None
    assert case.findtext("system-out", "").startswith("warning: ")


def test_a_host_to_which_nothing_applies_is_no_green_suite() -> None:
    nothing = factories.record("a", factories.cpu_results()[1:])
    suite = _suites(judged(factories.run(nothing, checks=CHECKS[1:])))["a"]
    assert suite.get("errors") == "1"
    assert _case(suite, "host").find("error") is not None


def test_the_totals_add_up(shown: Assessment) -> None:
    root = ET.fromstring(junit(shown))
    cases = list(root.iter("testcase"))
    assert root.get("tests") == str(len(cases)) == str(6 * len(CHECKS))
    assert root.get("failures") == str(sum(case.find("failure") is not None for case in cases))
    assert root.get("errors") == str(sum(case.find("error") is not None for case in cases))


def test_hostile_text_does_not_break_the_xml(hostile: Assessment) -> None:
    text = junit(hostile)
    root = ET.fromstring(text.encode("utf-8"))
    assert len(list(root.iter("testcase"))) == 2 * len(CHECKS)
    assert not root.findall(".//script")
