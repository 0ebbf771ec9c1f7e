"""The fault of a host for its vendor: its parts, its errors, and nothing of any other host."""

from __future__ import annotations

import shutil

import pytest

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import NONE
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.fleet.accept.fault import Fault, answer_for_vendor, fault_of, log_for_vendor
from hwcheck.fleet.accept.fault_page import fault_html, fault_markdown
from hwcheck.fleet.accept.pdf import BROWSERS, pdf
from tests import factories

HOSTILE = "<script>alert(1)</script>\x1b[2J"


def fault(*more: CheckResult, **values: object) -> Fault:
    results = (*factories.results((factories.leg(),), **values), *more)
    bad = factories.record("n1", results, gpus=factories.gpu_facts(8))
    checks = dict.fromkeys((*factories.CHECKS, *(each.check for each in more)))
    run = factories.run(bad, factories.gpu_host("n2"), checks=tuple(checks))
    return fault_of([assess(run, shipped())], "n1")


def test_what_failed_has_its_limit_and_its_source() -> None:
    made = fault(pcie_link_width=(3, 8))
    assert {(each.check, each.subject) for each in made.findings} == {("pcie_link", "gpu3")}
    assert [gpu.slot for gpu in made.gpus if gpu.failed] == ["gpu3"]
    text = fault_markdown(made, {})
    assert "8 lanes; limit: fail unless" in text
    assert "A PCIe link runs below what board and slot have" in text
    page = fault_html(made, {})
    assert "n2" not in text + page
    assert page.rindex(".source { display: block") > page.rindex(".source { display: none"), "print"
    assert page.index("gpu3<br><b>failed") < page.index("<td>gpu0<"), "what failed comes first"


def test_each_failure_and_each_part_has_its_line() -> None:
    named = [("part_model", "board0"), ("part_model", "chassis"), ("part_place", "chassis")]
    parts = tuple(Sample(metric, "X1", "", subject) for metric, subject in named)
    made = fault(
        CheckResult("parts", "done", samples=parts), remap(failed=True), pcie_link_width=(3, 8)
    )
    lines = fault_markdown(made, {}).splitlines()
    failures = [line for line in lines if "; source: " in line]
    assert [line.split()[1] for line in failures] == [f"{each.check}," for each in made.findings]
    assert len(failures) > 1
    of_parts = [line for line in lines if line.startswith(("- board0: X1", "- chassis: X1"))]
    assert [line.endswith(", X1") for line in of_parts] == [False, True]


def remap(failed: bool) -> CheckResult:
    samples = [
        Sample(metric, value, unit, f"gpu{number}")
        for number in range(8)
        for metric, value, unit in (
            ("row_remap_pending", False, ""),
            ("row_remap_failure", failed and number == 2, ""),
            ("row_remap_uncorrectable", 3 * (number == 2), "rows"),
            ("row_remap_correctable", 0, "rows"),
        )
    ]
    return CheckResult("row_remap", "done", NONE, tuple(samples))


@pytest.mark.parametrize(("failed", "state"), [(True, "met"), (False, "not met")])
def test_the_vendors_criteria_are_met_not_met_or_not_measured(failed: bool, state: str) -> None:
    made = fault(remap(failed))
    states = {each.text.split()[-1]: (each.state, each.gpus) for each in made.criteria}
    assert states["remapped"] == (state, ("gpu2",) if failed else ())
    assert states["threshold"][0] == "not measured"
    assert ("row_remap: row_remap_uncorrectable", "gpu2", "3 rows") in made.readings


def remapping(made: Fault) -> str:
    """Return the state of the criterion that a row could not be remapped."""
    (state,) = [each.state for each in made.criteria if each.text.endswith("remapped")]
    return state


def test_each_answer_is_the_last_of_any_run() -> None:
    """The host fails under load; its memory and serials were read in an earlier run."""
    idle = assess(
        factories.run(
            factories.record("n1", (remap(failed=True),), gpus=factories.gpu_facts(8)),
            factories.gpu_host("n2"),
            checks=("row_remap",),
        ),
        shipped(),
    )
    late = factories.gpu_host("n1", pcie_link_width=(3, 8))
    load = assess(factories.run(late, factories.gpu_host("n2")), shipped())
    made = fault_of([idle, load], "n1")
    assert {(f.check, f.subject) for f in made.findings} == {
        ("row_remap", "gpu2"),
        ("pcie_link", "gpu3"),
    }
    assert remapping(made) == "met"
    mended = assess(
        factories.run(
            factories.record("n1", (remap(failed=False),), gpus=factories.gpu_facts(8)),
            checks=("row_remap",),
        ),
        shipped(),
    )
    assert remapping(fault_of([idle, load, mended], "n1")) == "not met"


def test_dcgm_and_the_field_diagnostic_are_cited() -> None:
    samples = (
        Sample("failed_tests", 1, "tests", "gpu5"),
        Sample("passed_tests", 9, "tests", "gpu5"),
    )
    made = fault(CheckResult("dcgm_diag", "done", NONE, samples))
    dcgm, field = made.criteria[-2:]
    assert (dcgm.state, dcgm.gpus) == ("met", ("gpu5",))
    assert "Diagnostic Errors" in dcgm.source
    assert (field.state, "FAIL" in field.text) == ("not measured", True)


def test_other_hosts_and_secrets_stay_here() -> None:
    run = factories.run(*(factories.gpu_host(f"n{number}") for number in (1, 2, 3, 12)))
    runs = [assess(run, shipped())]
    log = "slow with n2 and n[2-3] at 10.0.0.2, not n1\nDB_PASSWORD=hunter2 token: abc n12.x n1\n"
    kept = log_for_vendor(log, runs, "n1")
    assert kept.startswith("slow with another host and another host at another host, not n1\n")
    assert "hunter2" not in kept
    assert "abc" not in kept
    assert "n12.x" in kept


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer hunter2",
        "authorization=Basic hunter2",
        "http://me:hunter2@proxy:3128",
        "--api-key hunter2",
        "DB_PASSWORD=hunter2",
    ],
)
def test_what_looks_like_a_secret_is_in_no_answer_and_no_log(text: str) -> None:
    runs = [assess(factories.run(factories.gpu_host("n1"), factories.gpu_host("n2")), shipped())]
    assert "hunter2" not in log_for_vendor(f"a {text} b", runs, "n1")
    answer = {"facts": {"n2": [f"a {text} b"], "proxy_token": "hunter2"}, "size": 4, "peer": "n2"}
    kept = answer_for_vendor(answer, runs, "n1")
    assert "hunter2" not in str(kept)
    assert "n2" not in str(kept)
    assert (kept["size"], kept["peer"]) == (4, "another host")


def test_words_of_a_node_stay_words() -> None:
    xid = CheckResult("xid", "done", NONE, (Sample("meaning", HOSTILE, "", f"pci {HOSTILE}"),))
    made = fault(xid, pcie_link_width=(3, 8))
    assert "<script>" not in fault_html(made, {})
    assert "<script>" not in fault_markdown(made, {})
    assert "\x1b" not in fault_html(made, {}) + fault_markdown(made, {})


@pytest.mark.skipif(not any(map(shutil.which, BROWSERS)), reason="no browser is here")
def test_the_same_page_is_the_same_pdf() -> None:
    page = "<!doctype html><title>x</title><p>one</p>"
    first = pdf(page, "2027-01-31T12:00:00Z")
    assert first
    assert first.startswith(b"%PDF")
    assert b"(D:20270131120000" in first
    assert pdf(page, "2027-01-31T12:00:00Z") == first


def test_without_a_program_there_is_no_pdf(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert pdf("<p>one</p>", "2027-01-31T12:00:00Z") is None
