"""Faults that a site bears for a time: marked in every report, not counted, and never for ever."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from hwcheck.advise.assessment import Assessment, assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import Reason
from hwcheck.errors import UsageError
from hwcheck.history import dataset
from hwcheck.history.views import History
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Judgement
from hwcheck.report.html import html
from hwcheck.report.junit import junit
from hwcheck.report.markdown import markdown
from hwcheck.report.summary import summary
from hwcheck.report.terminal import terminal
from hwcheck.results.run_folder import HostRecord, Run, RunFolder, read_run
from hwcheck.results.waivers import Waiver
from tests import factories

RMA = Waiver("pcie_link", "2026-01-31", "RMA <4711>", "gpu3")
"""It holds on the day of the run (``factories.run``), which is its last."""
OVER = replace(RMA, until="2026-01-30")


def bearing(records: dict[str, HostRecord], waivers: dict[str, tuple[Waiver, ...]]) -> Run:
    run = factories.run(*records.values())
    hosts = tuple(replace(host, waivers=waivers.get(host.name, ())) for host in run.meta.hosts)
    return replace(run, meta=replace(run.meta, hosts=hosts))


def half_link(*waivers: Waiver, width: int = 8) -> Run:
    """One host whose gpu3 has half of its PCIe lanes."""
    return bearing({"n1": factories.gpu_host("n1", pcie_link_width=(3, width))}, {"n1": waivers})


def states(judgement: Judgement) -> list[tuple[str, tuple[str, ...]]]:
    return [(use.state, use.hosts) for use in judgement.waivers]


def test_without_a_waiver_it_fails() -> None:
    judgement = judge(half_link(), shipped())
    assert (judgement.exit_code, judgement.waivers) == (1, ())


@pytest.mark.parametrize("waiver", [RMA, replace(RMA, subject="")])
def test_what_is_waived_stays_and_does_not_count(waiver: Waiver) -> None:
    judgement = judge(half_link(waiver), shipped())
    assert (judgement.exit_code, judgement.outcome) == (0, "pass")
    (host,) = judgement.hosts
    assert (host.outcome, host.reason, host.waived) == ("pass", "", 1)
    waived = [finding for finding in judgement.findings if finding.waived]
    assert {(f.check, f.subject, f.outcome) for f in waived} == {("pcie_link", "gpu3", "fail")}
    assert {f.waived for f in waived} == {"RMA <4711> (until 2026-01-31)"}
    assert states(judgement) == [("holds", ("n1",))]


@pytest.mark.parametrize(
    "waiver", [replace(RMA, subject="gpu2"), replace(RMA, check="power_cap", subject="")]
)
def test_it_is_about_its_check_and_subject_alone_and_otherwise_removable(waiver: Waiver) -> None:
    judgement = judge(half_link(waiver), shipped())
    assert judgement.exit_code == 1
    assert states(judgement) == [("removable", ("n1",))]


def test_past_its_day_it_counts_again_and_every_report_says_so() -> None:
    assessment = assess(half_link(OVER), shipped())
    assert assessment.judgement.exit_code == 1
    assert states(assessment.judgement) == [("ended", ("n1",))]
    assert not any(finding.waived for finding in assessment.judgement.findings)
    for text in (printed(assessment), markdown(assessment), html(assessment)):
        assert "over, and counts again" in text
    assert summary(assessment)["waivers"][0]["state"] == "ended"


def test_of_two_the_one_that_holds_counts() -> None:
    judgement = judge(half_link(OVER, RMA), shipped())
    assert judgement.exit_code == 0
    assert [state for state, _ in states(judgement)] == ["ended", "holds"]


def test_one_of_a_group_is_removable_where_no_host_has_use_of_it() -> None:
    records = {"n1": factories.gpu_host("n1"), "n2": factories.gpu_host("n2")}
    both = dict.fromkeys(records, (RMA,))
    assert states(judge(bearing(records, both), shipped())) == [("removable", ("n1", "n2"))]
    records["n2"] = factories.gpu_host("n2", pcie_link_width=(3, 8))
    assert states(judge(bearing(records, both), shipped())) == [("holds", ("n2",))]


def test_nothing_is_said_of_one_whose_check_gave_no_answer_on_some_host() -> None:
    records = {"n1": factories.gpu_host("n1"), "n2": factories.record("n2", None, reason="off")}
    assert states(judge(bearing(records, dict.fromkeys(records, (RMA,))), shipped())) == []
    not_asked = replace(RMA, check="hbm_bandwidth")
    assert states(judge(bearing({"n1": records["n1"]}, {"n1": (not_asked,)}), shipped())) == []


def test_what_could_not_be_measured_cannot_be_waived() -> None:
    record = factories.gpu_host("n1")
    assert record.report is not None
    answers = tuple(
        replace(each, state="could_not_measure", reason=Reason("not_measured", "no"), samples=())
        if each.check == "pcie_link"
        else each
        for each in record.report.results
    )
    blind = replace(record, report=replace(record.report, results=answers))
    judgement = judge(bearing({"n1": blind}, {"n1": (replace(RMA, subject=""),)}), shipped())
    assert (judgement.exit_code, judgement.hosts[0].waived) == (3, 0)


def test_another_fault_of_the_host_still_fails() -> None:
    record = factories.gpu_host("n1", pcie_link_width=(3, 8), nvml_gpus=7)
    judgement = judge(bearing({"n1": record}, {"n1": (RMA,)}), shipped())
    (host,) = judgement.hosts
    assert (host.outcome, host.waived) == ("fail", 1)
    assert "pcie_link" not in host.reason


def test_what_is_waived_is_no_cause_and_no_action() -> None:
    advice = assess(half_link(RMA), shipped()).advice
    assert (advice.actions, advice.causes.diagnoses) == ((), ())
    counted = assess(half_link(), shipped()).advice
    assert counted.actions
    assert counted.causes.diagnoses


def printed(assessment: Assessment) -> str:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(terminal(assessment))
    return capture.get()


def test_every_report_shows_it_with_reason_and_day() -> None:
    assessment = assess(half_link(RMA), shipped())
    text = printed(assessment)
    assert "Everything that is not waived passed on this host; 1 waived on 1 host." in text
    assert "passed, 1 waived" in text
    assert "waived: pcie_link of gpu3 on n1; pcie_link: pcie_link_width 8 of 16 lanes" in text
    assert "(RMA <4711>, until 2026-01-31)" in text
    page = html(assessment)
    assert "passed, 1 waived" in page
    assert "waived: RMA &lt;4711&gt; (until 2026-01-31)" in page
    assert "<h2>Waivers</h2>" in page
    in_markdown = markdown(assessment)
    assert "## Waivers" in in_markdown
    assert r"RMA &lt;4711&gt;" in in_markdown
    document = junit(assessment)
    assert '<skipped message="waived: RMA &lt;4711&gt; (until 2026-01-31)" />' in document
    assert 'failures="0"' in document
    data = summary(assessment)
    assert data["host_results"][0]["waived"] == 1
    assert data["waivers"] == [
        {
            "state": "holds",
            "hosts": ["n1"],
            "check": "pcie_link",
            "subject": "gpu3",
            "until": "2026-01-31",
            "reason": "RMA <4711>",
        }
    ]
    assert {f["waived"] for f in data["findings"]} == {"RMA <4711> (until 2026-01-31)"}


def test_without_waivers_no_report_names_any() -> None:
    assessment = assess(half_link(), shipped())
    for text in (printed(assessment), markdown(assessment), junit(assessment)):
        assert "waive" not in text.lower()
    assert "<h2>Waivers" not in html(assessment)


def test_a_saved_run_is_judged_by_what_held_then(tmp_path: Path) -> None:
    run = half_link(RMA)
    folder = RunFolder.create(tmp_path, run.meta)
    for record in run.records:
        folder.write_host(record)
    folder.finish(interrupted=False)
    data = json.loads((folder.path / "run.json").read_text())
    data["started"] = "2026-01-31T23:59:59Z"
    (folder.path / "run.json").write_text(json.dumps(data))
    assert judge(read_run(folder.path), shipped()).exit_code == 0
    data["started"] = "2026-02-01T00:00:00Z"
    (folder.path / "run.json").write_text(json.dumps(data))
    assert judge(read_run(folder.path), shipped()).exit_code == 1
    data["hosts"][0]["waivers"][0]["until"] = "soon"
    (folder.path / "run.json").write_text(json.dumps(data))
    with pytest.raises(UsageError, match="damaged run folder"):
        read_run(folder.path)


def test_the_history_has_it_beside_the_finding(tmp_path: Path) -> None:
    run = half_link(replace(RMA, until="2999-12-31"))
    folder = RunFolder.create(tmp_path, run.meta)
    for record in run.records:
        folder.write_host(record)
    folder.finish(interrupted=False)
    dataset.write(folder.path, assess(read_run(folder.path), shipped()))
    with History.open(tmp_path) as history:
        rows = history.rows("SELECT outcome, waived FROM findings")
        assert set(rows) == {("fail", "RMA <4711> (until 2999-12-31)")}
        assert history.rows("SELECT outcome FROM hosts") == [("pass",)]
