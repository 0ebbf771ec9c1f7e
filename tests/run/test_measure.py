"""From a plan to a finished run folder, over real visits to this machine."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from hwcheck.advise.actions import actions
from hwcheck.advise.catalogue import shipped
from hwcheck.connect.connector import Connector
from hwcheck.contract.reasons import NONE
from hwcheck.contract.wire import Leg, Request, Timing, to_dict
from hwcheck.inventory.inventory import Host
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Finding
from hwcheck.results.options import Options
from hwcheck.results.run_folder import OUT_OF_TIME, Run, read_run
from hwcheck.run.measure import Display, RunLimits, VisitTurn, measure
from hwcheck.run.plan import Plan
from tests import factories
from tests.factories import hung, leg
from tests.judge.nodes import node, pcie, topology
from tests.lab import stand_in
from tests.lab.visits import QUICK

# Answers with what it is told, another time with another leg, and says which checks and legs it was
# asked for then.
MAIN = """\
import os

from hwcheck.node import lifeline
from hwcheck.contract.wire import Request, frame


def main(data, payload, load):
    request = Request.from_dict(data)
    out = os.dup(1)

    def send(kind, **body):
        os.write(out, frame(request.token, kind, **body).encode())

    lifeline.start(0, request.lifeline_s, lambda: send("alive"))
    report = request.expect["first"]
    if request.timing.legs != ("default", "net"):
        asked = "asked for %s of %s" % (",".join(request.timing.legs), ",".join(request.checks))
        results = [dict(request.expect["second"], reason=asked)]
        report = {"protocol": 1, "facts": {}, "results": results, "duration_s": 0.1}
        if request.expect["dies"] == "before":
            os._exit(9)
    for result in report["results"]:
        send("result", result=result)
    if request.expect["dies"] == "after" and report is not request.expect["first"]:
        os._exit(9)
    send("report", report=report)
    return 0
"""
SITE_FILES = {"checks/fans.py": b"# fans"}
ON_BORDER, CLEAR, NAME = leg(peak_gbps=405.0, spread=0.08), leg(peak_gbps=460.0), "all_reduce"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


class EndsAfter(RunLimits):
    """Stops a run when the hosts had their first visit."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__()
        self._stop = stop

    def turns(self, plan: Plan) -> Iterator[VisitTurn]:
        yield from super().turns(plan)
        self._stop.set()


class Quiet:
    """A display that keeps what is said."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.visits: list[tuple[int, int]] = []
        self.display = Display(self.lines.append, lambda text: None, self.shown)

    def shown(self, hosts: int, at_once: int) -> Any:
        self.visits.append((hosts, at_once))
        return nullcontext(lambda event: None)


def measured(
    out: Path,
    first: Mapping[str, Leg],
    second: Leg,
    *,
    stop: bool = False,
    dies: str = "",
    limits: RunLimits | None = None,
    quiet: Quiet | None = None,
) -> Run:
    """Return a run of these hosts, in which each times ``second`` the second time."""
    stopping = threading.Event()
    records = [node(name, [own], topology(), pcie()) for name, own in first.items()]
    run = factories.run(*records, checks=(NAME, "topology", "pcie_link"), finished="")
    hosts = tuple(Host(name, "127.0.0.1", connection="local") for name in first)
    (result, *_) = node("any", [second]).report.results  # type: ignore[union-attr]
    timing = Timing(legs=("default", "net"))
    requests = {
        record.host: Request(
            "",
            run.meta.checks,
            expect={"first": to_dict(record.report), "second": to_dict(result), "dies": dies},
            timing=timing,
        )
        for record in records
    }
    options = Options(run.meta.checks, forks=4, timeout_s=60.0, timing=timing)
    plan = Plan(options, run.meta, hosts, requests, stand_in.payload(MAIN), SITE_FILES)
    connector = Connector(QUICK, stopping)
    connector.prepare(hosts)
    limits = EndsAfter(stopping) if stop else limits
    return read_run(measure(plan, out, connector, (quiet or Quiet()).display, limits))


def of(run: Run, host: str, metric: str = "busbw_gbps") -> list[Finding]:
    return [f for f in judge(run, shipped()).findings if (f.host, f.metric) == (host, metric)]


def test_only_what_lies_on_a_border_is_measured_again(tmp_path: Path) -> None:
    run = measured(tmp_path, {"n1": ON_BORDER, "n2": CLEAR}, leg(peak_gbps=430.0))
    assert set(run.second_visits) == {"n1"}
    report = run.second_visits["n1"].report
    assert report is not None, run.second_visits["n1"].reason
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
    assert finding.reason.code == "on_a_border"
    assert finding.reason.text.endswith("the border of warn and pass: measure again")


def test_what_hangs_the_second_time_fails(tmp_path: Path) -> None:
    run = measured(tmp_path, {"n1": ON_BORDER}, hung())
    bad: list[Any] = [f.reason.text for f in judge(run, shipped()).findings if f.outcome == "fail"]
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
    judgement = judge(run, shipped())
    (finding,) = of(run, "n1")
    assert (finding.outcome, said in finding.reason.text) == (outcome, True), finding.reason
    died, other = judgement.hosts
    assert died.outcome == "inconclusive"
    why = "second visit, to measure again: "
    assert f"{why}{run.second_visits['n1'].state}: {run.second_visits['n1'].reason}" in died.reason
    assert why not in other.reason
    evidence = [
        line for each in actions(run, judgement, shipped().checks) for line in each.evidence
    ]
    assert any(why in line for line in evidence), evidence


class OneByOne(RunLimits):
    """Has the first host visited, gives the second up, leaves the third out; no second visits."""

    def __init__(self) -> None:
        self.over: list[str] = []
        super().__init__(lambda: self.over.append("over"))

    def turns(self, plan: Plan) -> Iterator[VisitTurn]:
        first, second, _ = plan.hosts
        yield VisitTurn([first], 1, plan.timeout_s)
        yield VisitTurn([second], 1, plan.timeout_s, {second.name: OUT_OF_TIME})

    def second_turns(self, plan: Plan, hosts: Sequence[Host]) -> Iterator[VisitTurn]:
        assert [host.name for host in hosts] == ["n1"]
        yield VisitTurn(hosts, 3, plan.timeout_s, {"n1": OUT_OF_TIME})


def test_limits_say_who_has_a_turn_and_the_run_is_about_nobody_else(tmp_path: Path) -> None:
    limits, quiet = OneByOne(), Quiet()
    first = {"n1": ON_BORDER, "n2": CLEAR, "n3": CLEAR}
    run = measured(tmp_path, first, CLEAR, limits=limits, quiet=quiet)
    states = {record.host: (record.state, record.reason) for record in run.records}
    assert states == {"n1": ("reported", NONE), "n2": ("lost", OUT_OF_TIME)}
    assert [host.name for host in run.meta.hosts] == ["n1", "n2"]
    assert (run.second_visits, quiet.lines, quiet.visits) == ({}, [], [(3, 4)])
    assert limits.over == ["over"]
    assert run.meta.finished
    assert not run.meta.interrupted


def test_what_the_site_brings_goes_along_and_a_second_visit_is_said(tmp_path: Path) -> None:
    quiet = Quiet()
    run = measured(tmp_path, {"n1": ON_BORDER, "n2": CLEAR}, leg(peak_gbps=430.0), quiet=quiet)
    assert (run.path / "site/checks/fans.py").read_bytes() == b"# fans"
    assert quiet.lines == ["measuring again what lies on a border on 1 host"]
    assert quiet.visits == [(2, 4), (1, 4)]
