from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.recommend.legs import active_nvlinks, prove
from hwcheck.wire import Leg
from tests.factories import cpu_results, gpu_facts, gpu_host, hung, leg, record, results, wrong

OFF = leg("p2p_off", 21.0)
SELDOM = replace(OFF, sizes=tuple(replace(size, iterations=19) for size in OFF.sizes))
FAILED = leg(state="failed", reason="error 205", sizes=())


@pytest.mark.parametrize(
    ("legs", "nvlinks", "kind"),
    [
        ([leg(), OFF], 18, "defaults"),
        ([leg(peak_gbps=20.0), OFF], 0, "defaults"),
        ([leg(peak_gbps=14.0), OFF], 0, "off_faster"),
        ([leg(peak_gbps=14.0), OFF], 18, "defect"),
        ([leg(peak_gbps=14.0), OFF], None, "unproven"),
        ([hung(), OFF], 0, "off_mends"),
        ([wrong(), OFF], 0, "off_mends"),
        ([hung(), OFF], 4, "defect"),
        ([hung(), OFF], None, "unproven"),
        ([hung(), hung("p2p_off")], 0, "neither"),
        ([hung(), wrong("p2p_off")], 0, "neither"),
        ([leg(), hung("p2p_off")], 0, "defaults"),
        ([FAILED, OFF], 0, "unproven"),
        ([leg(), leg("p2p_off", state="not_run", sizes=())], 0, "unproven"),
        ([hung(), leg("p2p_off", state="not_run", sizes=())], 0, "unproven"),
        ([hung(), leg("p2p_off", 21.0, ranks=2)], 0, "unproven"),
        ([wrong(ranks=2), OFF], 0, "unproven"),
        ([leg(ranks=4), hung("p2p_off")], 0, "unproven"),
        ([hung(), SELDOM], 0, "unproven"),
        ([leg()], 0, "unproven"),
        ([OFF], 0, "unproven"),
        ([leg(ranks=1), leg("p2p_off", ranks=1)], 0, "unproven"),
        ([], 0, ""),
    ],
)
def test_what_one_host_proves(legs: list[Leg], nvlinks: int | None, kind: str) -> None:
    assert prove(gpu_host("node01", legs, nvlink_links=nvlinks)).kind == kind


def test_gloo_proves_nothing() -> None:
    assert prove(record("cpu", cpu_results())).kind == ""
    slow = leg(peak_gbps=14.0, backend="gloo", exercise=True)
    fast = leg("p2p_off", 21.0, backend="gloo", exercise=True)
    assert prove(gpu_host("a", [slow, fast], nvlink_links=0)).kind == ""


def test_a_host_that_never_answered_proves_nothing() -> None:
    assert prove(record("down", None)).kind == ""


def test_one_collective_is_not_harmed_for_another() -> None:
    slow, fast = leg(peak_gbps=14.0), OFF
    other = [leg(collective="alltoall"), leg("p2p_off", 40.0, collective="alltoall")]
    assert prove(gpu_host("a", [slow, fast, *other], nvlink_links=0)).kind == "defaults"
    agreeing = [
        leg(peak_gbps=2.0, collective="alltoall"),
        leg("p2p_off", 18.0, collective="alltoall"),
    ]
    assert prove(gpu_host("a", [slow, fast, *agreeing], nvlink_links=0)).kind == "off_faster"


@pytest.mark.parametrize(
    ("counts", "links"),
    [
        ([0, 0], 0),
        ([18, 18], 36),
        ([0, 2], 2),
        ([0, None], None),
        ([2, None], 2),
        ([True, 0], None),
        (["18", 0], None),
        ([], None),
    ],
)
def test_nvlinks_are_absent_only_when_every_gpu_says_so(
    counts: list[Any], links: int | None
) -> None:
    facts = [{"index": i, "nvlink_links": n} for i, n in enumerate(counts)]
    assert active_nvlinks(record("a", results([]), gpus=facts)) == links


def test_a_missing_nvlink_fact_is_not_a_zero() -> None:
    facts = gpu_facts(2)
    del facts[1]["nvlink_links"]
    facts[0]["nvlink_links"] = 0
    assert active_nvlinks(record("a", results([]), gpus=facts)) is None
