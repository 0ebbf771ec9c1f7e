"""The fault of a host for its vendor: its parts, its errors, and nothing of any other host."""

from __future__ import annotations

import shutil

import pytest

from hwcheck.accept.fault import Fault, fault_of
from hwcheck.accept.pdf import BROWSERS, pdf
from hwcheck.advise.assessment import assess
from hwcheck.node.wire import CheckResult, Sample
from hwcheck.render.fault import fault_html, fault_markdown
from tests import factories

HOSTILE = "<script>alert(1)</script>\x1b[2J"


def fault(*more: CheckResult, **values: object) -> Fault:
    results = (*factories.results((factories.leg(),), **values), *more)
    bad = factories.record("n1", results, gpus=factories.gpu_facts(8))
    checks = dict.fromkeys((*factories.CHECKS, *(each.check for each in more)))
    run = factories.run(bad, factories.gpu_host("n2"), checks=tuple(checks))
    return fault_of(assess(run), "n1")


def test_what_failed_has_its_limit_and_its_source() -> None:
    made = fault(pcie_link_width=(3, 8))
    assert {(each.check, each.subject) for each in made.findings} == {("pcie_link", "gpu3")}
    assert [gpu.slot for gpu in made.gpus if gpu.failed] == ["gpu3"]
    text = fault_markdown(made)
    assert "8 lanes; limit: fail unless" in text
    assert "A PCIe link runs below what board and slot have" in text
    assert "n2" not in text + fault_html(made)


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
    return CheckResult("row_remap", "done", "", tuple(samples))


@pytest.mark.parametrize(("failed", "state"), [(True, "met"), (False, "not met")])
def test_the_vendors_criteria_are_met_not_met_or_not_measured(failed: bool, state: str) -> None:
    made = fault(remap(failed))
    states = {each.text.split()[-1]: (each.state, each.gpus) for each in made.criteria}
    assert states["remapped"] == (state, ("gpu2",) if failed else ())
    assert states["threshold"][0] == "not measured"
    assert ("row_remap: row_remap_uncorrectable", "gpu2", "3 rows") in made.readings


def test_words_of_a_node_stay_words() -> None:
    xid = CheckResult("xid", "done", "", (Sample("meaning", HOSTILE, "", f"pci {HOSTILE}"),))
    made = fault(xid, pcie_link_width=(3, 8))
    assert "<script>" not in fault_html(made)
    assert "<script>" not in fault_markdown(made)
    assert "\x1b" not in fault_html(made) + fault_markdown(made)


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
