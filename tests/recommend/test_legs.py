from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.judge.legs import BUSBW_FACTORS
from hwcheck.node.collective.spec import SYSTEM_CONF_NOTE
from hwcheck.recommend.legs import active_nvlinks, prove
from hwcheck.wire import CheckResult, Leg
from tests.factories import (
    MIB,
    cpu_results,
    gpu_facts,
    gpu_host,
    hung,
    leg,
    record,
    results,
    wrong,
)

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
        ([hung(), OFF, hung("net")], 0, "neither"),
        ([hung(), OFF, hung("net")], 18, "neither"),
        ([wrong(), OFF, wrong("net")], 0, "neither"),
        ([hung(), OFF, leg("net", 9.0)], 0, "off_mends"),
        ([hung(), OFF, leg("net", state="failed", sizes=())], 0, "off_mends"),
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
        ([leg(peak_gbps=14.0), leg("p2p_off", 21.0, env={})], 0, "unproven"),
        ([leg(peak_gbps=14.0), OFF, OFF], 0, "unproven"),
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


NET = leg("net", 30.0)
LOW = 32 * MIB


@pytest.mark.parametrize(
    ("default", "p2p_off", "net", "kind"),
    [
        (14.0, 14.0, 30.0, "net_faster"),
        (14.0, 21.0, 30.0, "net_faster"),
        (14.0, 29.0, 30.0, "off_faster"),
        (14.0, 40.0, 30.0, "off_faster"),
        (28.0, 21.0, 30.0, "defaults"),
    ],
)
def test_sockets_that_beat_the_default_are_a_defect(
    default: float, p2p_off: float, net: float, kind: str
) -> None:
    legs = [leg(peak_gbps=default), leg("p2p_off", p2p_off), leg("net", net)]
    assert prove(gpu_host("a", legs, nvlink_links=0)).kind == kind


def test_sockets_beat_a_default_whose_p2p_off_hangs() -> None:
    found = prove(gpu_host("a", [leg(peak_gbps=14.0), hung("p2p_off"), NET], nvlink_links=0))
    assert found.kind == "net_faster"
    assert "the default is slower than net" in found.why


@pytest.mark.parametrize(
    ("legs", "kind"),
    [
        ([leg(peak_gbps=14.0, largest=LOW), OFF], "unproven"),
        ([leg(peak_gbps=14.0), leg("p2p_off", 21.0, largest=LOW)], "unproven"),
        ([leg(largest=LOW), leg("p2p_off", 21.0, largest=LOW)], "unproven"),
        ([leg(peak_gbps=14.0), leg("p2p_off", 21.0, largest=2 * LOW)], "off_faster"),
        ([leg(peak_gbps=14.0), leg("p2p_off", 14.0), leg("net", 30.0, largest=LOW)], "defaults"),
        ([leg(largest=LOW), hung("p2p_off")], "defaults"),
        ([hung(), leg("p2p_off", 21.0, largest=LOW)], "off_mends"),
    ],
)
def test_small_sizes_prove_the_data_and_no_speed(legs: list[Leg], kind: str) -> None:
    assert prove(gpu_host("a", legs, nvlink_links=0)).kind == kind


@pytest.mark.parametrize(
    ("default", "reached", "kind"),
    [
        (hung(sizes=leg(largest=LOW).sizes), LOW, "unproven"),
        (hung(sizes=leg(largest=LOW).sizes), 2 * LOW, "off_mends"),
        (hung(sizes=leg().sizes), 1024 * MIB, "off_mends"),
        (wrong(largest=2 * LOW), LOW, "unproven"),
        (wrong(largest=2 * LOW), 2 * LOW, "off_mends"),
    ],
)
def test_a_mend_gets_through_the_size_that_is_bad(default: Leg, reached: int, kind: str) -> None:
    legs = [default, leg("p2p_off", 21.0, largest=reached)]
    assert prove(gpu_host("a", legs, nvlink_links=0)).kind == kind


@pytest.mark.parametrize(
    ("default", "p2p_off"), [(30.0, 21.0), (14.0, 21.0), (None, 21.0), (21.0, 21.0)]
)
def test_a_conf_of_the_system_leaves_no_default(default: float | None, p2p_off: float) -> None:
    notes = {"notes": (SYSTEM_CONF_NOTE,)}
    first = hung(**notes) if default is None else leg(peak_gbps=default, **notes)
    found = prove(gpu_host("a", [first, leg("p2p_off", p2p_off, **notes)], nvlink_links=0))
    assert found.kind == "unproven"
    assert "/etc/nccl.conf exists" in found.why
    assert "move it away" in found.why


def _alltoall(name: str, peak_gbps: float) -> Leg:
    made = leg(name, peak_gbps, collective="alltoall")
    factor = BUSBW_FACTORS["alltoall"](8)
    sizes = (replace(size, busbw_gbps=size.algbw_gbps * factor) for size in made.sizes)
    return replace(made, sizes=tuple(sizes))


@pytest.mark.parametrize(
    ("default", "p2p_off", "kind"), [(450.0, 40.0, "defaults"), (2.0, 18.0, "off_faster")]
)
def test_no_collective_is_harmed_for_another(default: float, p2p_off: float, kind: str) -> None:
    other = (_alltoall("default", default), _alltoall("p2p_off", p2p_off))
    answers = [*results([leg(peak_gbps=14.0), OFF]), CheckResult("alltoall", "done", legs=other)]
    assert prove(record("a", answers, gpus=gpu_facts(nvlink_links=0))).kind == kind


@pytest.mark.parametrize(
    ("counts", "links"),
    [
        ([0, 0], 0),
        ([18, 18], 36),
        ([0, 2], 2),
        ([0, None], None),
        ([2, None], 2),
        ([True, 0], None),
        ([-1, 0], None),
        ([-1, 1], 1),
        ([0.0, 0], None),
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
