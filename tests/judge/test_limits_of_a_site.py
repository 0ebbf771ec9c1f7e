"""A run whose hosts have limits of their site: judged by them, again and again, in every report."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.judge.coverage import gaps, require
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Finding
from hwcheck.report.html import html
from hwcheck.report.junit import junit
from hwcheck.report.markdown import markdown
from hwcheck.report.summary import summary
from hwcheck.report.words import coverage, verdict
from hwcheck.results.run_folder import HostPlan, HostRecord, Run, RunFolder, read_run
from tests import factories

PERCENT = "power_cap.power_limit_percent"
CHECKS = ("power_cap", "temperature_idle")


def capped(limits: dict[str, Any], checks: tuple[str, ...] = CHECKS, watts: float = 600.0) -> Run:
    """Two hosts with one GPU held to ``watts`` of 700; the second one has these limits."""
    records = []
    for host in ("n1", "n2"):
        record = factories.gpu_host(host, power_limit_w=(3, watts))
        assert record.report is not None
        answers = tuple(r for r in record.report.results if r.check in checks)
        records.append(replace(record, report=replace(record.report, results=answers)))
    run = factories.run(*records, checks=checks)
    plans = (HostPlan("n1", "10.0.0.1"), HostPlan("n2", "10.0.0.2", limits=limits))
    return replace(run, meta=replace(run.meta, hosts=plans))


def of_percent(run: Run, host: str) -> list[Finding]:
    return [f for f in judge(run, shipped()).by_host[host] if f.metric == "power_limit_percent"]


def test_a_limit_holds_for_its_host_alone() -> None:
    run = capped({PERCENT: {"warn": 80.0, "source": "OPS-112"}})
    assert {f.subject for f in of_percent(run, "n1") if f.outcome == "warn"} == {"gpu3"}
    of_site = of_percent(run, "n2")
    assert {f.outcome for f in of_site} == {"pass"}
    assert all(f.source.startswith("OPS-112;") for f in of_site)
    assert {f.confidence for f in of_site} == {"inventory"}
    assert "warn unless >= 80" in of_site[0].limit


def test_it_may_be_stricter() -> None:
    run = capped({PERCENT: {"fail": 90.0, "source": "OPS-112"}})
    outcomes = {verdict.host: verdict.outcome for verdict in judge(run, shipped()).hosts}
    assert outcomes == {"n1": "warn", "n2": "fail"}


def test_what_is_ignored_is_no_pass_and_is_listed_in_every_report() -> None:
    run = capped({PERCENT: {"ignore": True, "source": "OPS-<7>"}})
    judgement = judge(run, shipped())
    assert of_percent(run, "n2") == []
    host = judgement.hosts[1]
    assert host.not_judged == ((PERCENT, "OPS-<7>"),)
    assert (host.asked, host.measured) == (2, 2)
    (gap,) = gaps(judgement)
    assert (gap.checks, gap.hosts, gap.reason) == ((PERCENT,), ("n2",), "OPS-<7>")
    assert (gap.applies, gap.judged) == (False, False)
    assert "1 metric not judged" in coverage(judgement)
    assessment = assess(run, shipped())
    text = markdown(assessment)
    assert "not judged: OPS" in text
    assert "1 metric not judged" in text
    page = html(assessment)
    assert "not judged: OPS-&lt;7&gt;" in page
    assert "not judged (on n2)" in page
    (listed,) = summary(assessment)["coverage"]["gaps"]
    assert (listed["judged"], listed["reason"]) == (False, "OPS-<7>")


@pytest.mark.parametrize(
    ("limits", "warned"),
    [
        ({}, {"percent_of_peers"}),
        (
            {"device_to_host.percent_of_peers": {"ignore": True, "source": "OPS-7"}},
            {"from_device_gbps"},
        ),
        (
            {
                "device_to_host.percent_of_peers": {"ignore": True, "source": "OPS-7"},
                "device_to_host.from_device_gbps": {"ignore": True, "source": "OPS-7"},
            },
            set(),
        ),
    ],
)
def test_what_is_ignored_hides_no_other_figure_of_a_gpu_from_its_peers(
    limits: dict[str, Any], warned: set[str]
) -> None:
    """What a limit complains of is not compared besides; what is ignored is no complaint."""
    records = [copies(f"n{place}", 55.0, 100.0) for place in range(3)]
    run = factories.run(*records, copies("slow", 47.0, 60.0), checks=("device_to_host",))
    hosts = tuple(replace(plan, limits=limits) for plan in run.meta.hosts)
    judgement = judge(replace(run, meta=replace(run.meta, hosts=hosts)), shipped())
    assert {f.metric for f in judgement.by_host.get("slow", ()) if f.outcome == "warn"} == warned


def copies(host: str, gbps: float, percent: float) -> HostRecord:
    """A host with one GPU that copies so fast from the device, and so fast beside its peers."""
    samples = (
        Sample("from_device_gbps", gbps, "GB/s", "gpu0"),
        Sample("pcie_gbps", 63.0, "GB/s", "gpu0"),
        Sample("percent_of_peers", percent, "%", "gpu0"),
    )
    answer = CheckResult("device_to_host", "done", samples=samples)
    return factories.record(host, [answer], gpus=factories.gpu_facts(1, "NVIDIA H200"))


def test_a_check_of_which_nothing_is_judged_is_skipped_in_junit_and_not_passed() -> None:
    everything = {
        f"power_cap.{name}": {"ignore": True, "source": "OPS-7"}
        for name in ("power_limit_w", "power_limit_default_w", "power_limit_percent")
    }
    run = capped(everything)
    assessment = assess(run, shipped())
    judgement, document = assessment.judgement, junit(assessment)
    skipped = '<skipped message="OPS-7" />'
    assert document.count(skipped) == 1
    assert 'classname="n2" name="power_cap"' in document.partition(skipped)[0][-200:]
    assert judgement.hosts[1].outcome == "pass", "the other check passed"
    host_two = replace(judgement, hosts=judgement.hosts[1:], outcome="pass")
    assert verdict(host_two).startswith("Everything that is judged passed on this host")


def test_a_host_of_which_nothing_is_judged_is_inconclusive() -> None:
    run = capped(
        {
            f"power_cap.{name}": {"ignore": True, "source": "OPS-7"}
            for name in ("power_limit_w", "power_limit_default_w", "power_limit_percent")
        },
        ("power_cap",),
    )
    judgement = judge(run, shipped())
    assert judgement.hosts[1].outcome == "inconclusive"
    assert judgement.hosts[1].reason == "hwcheck_limits leaves nothing to judge"
    assert judgement.exit_code == 3
    assert require(judgement, 100).exit_code == 3


def test_what_could_not_be_measured_stays_so() -> None:
    run = capped({PERCENT: {"ignore": True, "source": "OPS-7"}})
    report = run.records[1].report
    assert report is not None
    silent = tuple(
        replace(r, state="could_not_measure", reason=Reason("not_measured", "no"), samples=())
        for r in report.results
    )
    record = replace(run.records[1], report=replace(report, results=silent))
    judgement = judge(replace(run, records=(run.records[0], record)), shipped())
    assert judgement.hosts[1].outcome == "inconclusive"
    assert ("power_cap", "no") in judgement.hosts[1].unmeasured


def test_a_limit_that_this_version_cannot_take_is_said() -> None:
    run = capped({"power_cap.power_limit_w": {"warn": 1.0, "source": "OPS-1"}})
    judgement = judge(run, shipped())
    assert judgement.hosts[1].outcome == "inconclusive"
    assert "hwcheck_limits of power_cap: it is held against" in judgement.hosts[1].reason


def test_a_saved_run_is_judged_by_what_held_then(tmp_path: Path) -> None:
    run = capped({PERCENT: {"warn": 80.0, "source": "OPS-112"}})
    folder = RunFolder.create(tmp_path, run.meta)
    for record in run.records:
        folder.write_host(record)
    folder.finish(interrupted=False)
    again = read_run(folder.path)
    assert judge(again, shipped()).findings == judge(run, shipped()).findings
    data = json.loads((folder.path / "run.json").read_text())
    for host in data["hosts"]:
        host.pop("limits")
    data.pop("site")
    (folder.path / "run.json").write_text(json.dumps(data))
    former = read_run(folder.path)
    assert former.meta.hosts[1].limits == {}, "a run of a former version is read"
    assert {f.outcome for f in of_percent(former, "n2")} == {"pass", "warn"}


@pytest.mark.parametrize(
    "limits",
    [
        {PERCENT: {"warn": 80.0}},
        {PERCENT: {"source": "OPS-1"}},
        {PERCENT: {"warn": "x", "source": "a"}},
    ],
)
def test_a_run_with_limits_that_are_none_is_damaged(tmp_path: Path, limits: dict[str, Any]) -> None:
    from hwcheck.errors import UsageError

    with pytest.raises(UsageError, match="cannot be recorded"):
        RunFolder.create(tmp_path, capped(limits).meta)
