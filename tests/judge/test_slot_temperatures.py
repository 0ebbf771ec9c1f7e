"""Temperatures in the same slot over the hosts of a run, by the limit that their check declares."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck import checks
from hwcheck.advise.catalogue import shipped
from hwcheck.contract.limits import AbovePeers
from hwcheck.contract.wire import CheckResult, Report, Sample
from hwcheck.judge.judge import judge
from hwcheck.judge.peers import Tolerance, middle_of
from hwcheck.results.run_folder import HostRecord
from tests import factories

NAME = "NVIDIA H100 80GB HBM3"
(LIMIT,) = (
    limit
    for metric in checks.load()["thermal_spread"].metrics
    for limit in metric.limits
    if isinstance(limit, AbovePeers)
)


def host(name: str, *temperatures: float, board: str = NAME) -> HostRecord:
    """Return a host whose GPUs had these temperatures under load."""
    samples = tuple(
        Sample("temperature_c", heat, "C", f"gpu{index}") for index, heat in enumerate(temperatures)
    )
    samples += tuple(
        Sample("temperature_over_peers_c", 0.0, "C", f"gpu{index}")
        for index in range(len(temperatures))
    )
    gpus = [
        {"index": index, "name": board, "uuid": f"GPU-{name}-{index}"}
        for index in range(len(temperatures))
    ]
    results = (CheckResult("thermal_spread", "done", samples=samples),)
    return HostRecord(name, "reported", report=Report({"gpus": gpus}, results))


def warned(*hosts: HostRecord) -> list[tuple[str, str]]:
    run = factories.run(*hosts, checks=("thermal_spread",))
    return [
        (finding.host, finding.subject)
        for finding in judge(run, shipped()).findings
        if finding.outcome != "pass"
    ]


def test_a_host_that_is_warm_as_a_whole() -> None:
    fleet = [host(f"n{index}", 60.0 + index, 66.0) for index in range(5)]
    assert warned(*fleet, host("warm", 75.0, 81.0)) == [("warm", "gpu0"), ("warm", "gpu1")]


@pytest.mark.parametrize("golden", [(), ("warm",), ("n0",)])
def test_a_golden_host_may_be_warm_too(golden: tuple[str, ...]) -> None:
    run = factories.run(
        *(host(f"n{index}", 60.0 + index) for index in range(5)),
        host("warm", 75.0),
        checks=("thermal_spread",),
    )
    hosts = tuple(replace(plan, expect={"golden": plan.name in golden}) for plan in run.meta.hosts)
    findings = judge(replace(run, meta=replace(run.meta, hosts=hosts)), shipped()).findings
    assert [f.host for f in findings if f.outcome != "pass"] == ["warm"]


def test_a_slot_that_is_hot_on_every_host_is_usual_there() -> None:
    assert warned(*(host(f"n{index}", 60.0, 66.0 + index) for index in range(6))) == []


def test_too_few_hosts_and_other_boards_are_no_measure() -> None:
    fleet = [host(f"n{index}", 60.0) for index in range(LIMIT.least_hosts - 2)]
    assert warned(*fleet, host("warm", 90.0)) == []
    fleet += [host(f"m{index}", 60.0) for index in range(2)]
    assert warned(*fleet, host("other", 90.0, board="NVIDIA A40")) == []
    assert warned(*fleet, host("warm", 90.0)) == [("warm", "gpu0")]


@pytest.mark.parametrize(
    ("values", "highest"),
    [
        ([60, 60, 60, 60, 90], 70),
        ([50, 55, 60, 65, 70], 85),
        ([60, 60, 60, 60], None),
        ([], None),
    ],
)
def test_margin_or_scatter(values: list[float], highest: float | None) -> None:
    tolerance = Tolerance(0.0, LIMIT.margin, mads=LIMIT.scatter, least_hosts=LIMIT.least_hosts)
    middle = middle_of(values, tolerance)
    assert (middle and middle.median + middle.width) == highest


def test_the_warning_has_the_source_of_the_limit() -> None:
    hosts = (*(host(f"n{index}", 60.0) for index in range(5)), host("warm", 75.0))
    findings = judge(factories.run(*hosts, checks=("thermal_spread",)), shipped()).findings
    (warning,) = [finding for finding in findings if finding.outcome == "warn"]
    assert (warning.source, warning.confidence) == (LIMIT.source, "derived")
    assert warning.limit == "warn unless like its peers: 60 C in the middle of 6, 10 C either way"
