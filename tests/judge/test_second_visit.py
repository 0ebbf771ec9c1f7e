"""What is measured again: legs that are judged, on a border, of hosts that answered."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.contract.wire import Leg
from hwcheck.judge.second_visit import legs_on_a_border
from hwcheck.results.run_folder import HostRecord
from tests import factories
from tests.factories import as_alltoall, gloo_legs, hung, leg
from tests.judge.nodes import node, pcie, topology

CHECKS = ("all_reduce", "topology", "pcie_link")
ON_BORDER = leg(peak_gbps=405.0, spread=0.08)


def host(*legs: Leg) -> HostRecord:
    return node("n1", legs, topology(), pcie())


def test_the_legs_of_a_host() -> None:
    site = replace(ON_BORDER, leg="site", env={})
    net = leg("net", peak_gbps=405.0, spread=0.08)
    run = factories.run(host(ON_BORDER, site, net), checks=CHECKS)
    assert legs_on_a_border(run) == {"n1": {"all_reduce": ("default", "site")}}


@pytest.mark.parametrize(
    "legs",
    [
        (leg(peak_gbps=470.0),),
        (leg(peak_gbps=120.0),),
        (hung(),),
        gloo_legs(),
        (leg(peak_gbps=405.0, spread=0.08, largest=factories.MIB),),
    ],
    ids=["pass", "fail", "hang", "exercise", "small"],
)
def test_nothing_else(legs: tuple[Leg, ...]) -> None:
    assert legs_on_a_border(factories.run(host(*legs), checks=CHECKS)) == {}


def test_no_host_that_did_not_answer_to_the_end() -> None:
    partial = replace(host(ON_BORDER), state="partial")
    nobody = HostRecord("n2", "unreachable", "no route")
    assert legs_on_a_border(factories.run(partial, nobody, checks=CHECKS)) == {}


def test_every_collective_by_itself() -> None:
    record = host(ON_BORDER)
    assert record.report is not None
    (first, *rest) = record.report.results
    other = replace(first, check="alltoall", legs=(as_alltoall(leg(peak_gbps=470.0)),))
    report = replace(record.report, results=(first, other, *rest))
    run = factories.run(replace(record, report=report), checks=(*CHECKS, "alltoall"))
    assert legs_on_a_border(run) == {"n1": {"all_reduce": ("default",)}}


@pytest.mark.parametrize(("metric", "measured_again"), [("busbw_gbps", False), ("leg_state", True)])
def test_no_bandwidth_that_the_site_wants_ignored(metric: str, measured_again: bool) -> None:
    run = factories.run(host(ON_BORDER), checks=CHECKS)
    limits = {f"all_reduce.{metric}": {"ignore": True, "source": "OPS-7"}}
    hosts = tuple(replace(plan, limits=limits) for plan in run.meta.hosts)
    run = replace(run, meta=replace(run.meta, hosts=hosts))
    assert bool(legs_on_a_border(run)) is measured_again
