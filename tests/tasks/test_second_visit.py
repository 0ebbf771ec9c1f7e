"""A figure on a border is measured again, over a real visit to this machine."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hwcheck.advise.actions import actions
from hwcheck.connect.connector import Connector
from hwcheck.inventory.inventory import Host
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Finding
from hwcheck.node.wire import Leg, Request, Timing, to_dict
from hwcheck.results.run_folder import Run, RunFolder, read_run
from hwcheck.run.plan import Plan
from hwcheck.tasks.second_visit import make_second_visits
from tests import factories
from tests.factories import hung, leg
from tests.judge.nodes import node, pcie, topology
from tests.lab import stand_in
from tests.lab.visits import QUICK

# Answers with the leg that it is told, and says which checks and legs it was asked for.
MAIN = """\
import os

from hwcheck.node import lifeline
from hwcheck.node.wire import Request, frame


def main(data, payload):
    request = Request.from_dict(data)
    out = os.dup(1)

    def send(kind, **body):
        os.write(out, frame(request.token, kind, **body).encode())

    lifeline.start(0, request.lifeline_s, lambda: send("alive"))
    asked = "asked for %s of %s" % (",".join(request.timing.legs), ",".join(request.checks))
    results = [dict(request.expect["answer"], reason=asked)]
    if request.expect["dies"] == "before":
        os._exit(9)
    for result in results:
        send("result", result=result)
    if request.expect["dies"] == "after":
        os._exit(9)
    send("report", report={"protocol": 1, "facts": {}, "results": results, "duration_s": 0.1})
    return 0
"""
ON_BORDER, CLEAR, NAME = leg(peak_gbps=405.0, spread=0.08), leg(peak_gbps=460.0), "all_reduce"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def measured(
    out: Path, first: Mapping[str, Leg], second: Leg, *, stop: bool = False, dies: str = ""
) -> Run:
    """Return a run of these hosts after ``make_second_visits``, in which each times ``second``."""
    stopping = threading.Event()
    records = [node(name, [own], topology(), pcie()) for name, own in first.items()]
    run = factories.run(*records, checks=(NAME, "topology", "pcie_link"))
    folder = RunFolder.create(out, run.meta)
    for record in records:
        folder.write_host(record)
    hosts = tuple(Host(name, "127.0.0.1", connection="local") for name in first)
    (result, *_) = node("any", [second]).report.results  # type: ignore[union-attr]
    expect = {"answer": to_dict(result), "dies": dies}
    timing = Timing(legs=("default", "net"))
    request = Request("", run.meta.checks, expect=expect, timing=timing)
    plan = Plan(run.meta, hosts, dict.fromkeys(first, request), 60.0)
    connector = Connector(QUICK, stopping)
    connector.prepare(hosts)
    if stop:
        stopping.set()
    make_second_visits(plan, stand_in.payload(MAIN), folder, connector, forks=4, verbose=False)
    return read_run(folder.path)


def of(run: Run, host: str, metric: str = "busbw_gbps") -> list[Finding]:
    return [f for f in judge(run).findings if (f.host, f.metric) == (host, metric)]


def test_only_what_lies_on_a_border_is_measured_again(tmp_path: Path) -> None:
    run = measured(tmp_path, {"n1": ON_BORDER, "n2": CLEAR}, leg(peak_gbps=430.0))
    assert set(run.second_visits) == {"n1"}
    report = run.second_visits["n1"].report
    assert report is not None, run.second_visits["n1"].reason.text
    assert [result.reason.text for result in report.results] == ["asked for default of all_reduce"]
    (finding,) = of(run, "n1")
    assert (finding.outcome, finding.reason.text) == ("pass", "")
    assert run.records[0].report is not None, "the first figures stay"
    assert run.records[0].report.results[0].legs == (ON_BORDER,)


def test_nothing_on_a_border_is_no_second_visit(tmp_path: Path) -> None:
    run = measured(tmp_path, {"n2": CLEAR}, CLEAR)
    assert (run.second_visits, (run.path / "again").exists()) == ({}, False)


def test_a_run_that_was_stopped_makes_no_second_visit(tmp_path: Path) -> None:
    run = measured(tmp_path, {"n1": ON_BORDER}, CLEAR, stop=True)
    assert run.second_visits == {}
    (finding,) = of(run, "n1")
    assert finding.outcome == "inconclusive"
    assert finding.reason.text.endswith("the border of warn and pass: measure again")


def test_what_hangs_the_second_time_fails(tmp_path: Path) -> None:
    run = measured(tmp_path, {"n1": ON_BORDER}, hung())
    bad: list[Any] = [f.reason.text for f in judge(run).findings if f.outcome == "fail"]
    assert bad
    assert all(reason.startswith("when measured again") for reason in bad)
    (finding,) = of(run, "n1")
    assert finding.outcome == "inconclusive"


@pytest.mark.parametrize(
    ("dies", "outcome", "said"),
    [
        ("before", "inconclusive", "; a second visit was tried and gave no figure: lost: "),
        ("after", "pass", ""),
    ],
)
def test_a_host_that_dies_in_its_second_visit_is_said_and_no_pass(
    tmp_path: Path, dies: str, outcome: str, said: str
) -> None:
    run = measured(tmp_path, {"n1": ON_BORDER, "n2": CLEAR}, leg(peak_gbps=430.0), dies=dies)
    assert run.second_visits["n1"].state != "reported"
    judgement = judge(run)
    (finding,) = of(run, "n1")
    assert (finding.outcome, said in finding.reason.text) == (outcome, True), finding.reason.text
    died, other = judgement.hosts
    assert died.outcome == "inconclusive"
    why = "second visit, to measure again: "
    assert (
        f"{why}{run.second_visits['n1'].state}: {run.second_visits['n1'].reason.text}"
        in died.reason
    )
    assert why not in other.reason
    evidence = [line for each in actions(run, judgement) for line in each.evidence]
    assert any(why in line for line in evidence), evidence
