from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.advise.nccl_evidence import NVL, SYS, active_nvlinks, prove
from hwcheck.advise.nccl_evidence import OFF as OFF_SETTING
from hwcheck.advise.records import HostProof
from hwcheck.contract.collective_spec import SYSTEM_CONF_NOTE, USER_CONF_NOTE
from hwcheck.contract.wire import CheckResult, Leg
from tests.advise.both import both
from tests.factories import (
    MIB,
    as_alltoall,
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
        ([leg(peak_gbps=14.0), OFF], 0, "unproven"),
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
        ([hung(), leg("p2p_off", state="failed", reason="killed")], 0, "unproven"),
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


SYS_LEG = leg("p2p_sys", 40.0)


@pytest.mark.parametrize(
    ("legs", "kind"),
    [
        ([leg(peak_gbps=14.0), OFF], "off_faster"),
        ([leg(peak_gbps=21.0), OFF, SYS_LEG], "sys_faster"),
    ],
)
def test_a_gain_of_one_collective_is_no_proof_without_the_other(legs: list[Leg], kind: str) -> None:
    assert prove(both("a", legs)).kind == kind
    reduce = prove(gpu_host("a", legs, nvlink_links=0))
    assert (reduce.kind, reduce.setting) == ("unproven", None)
    assert reduce.why.startswith("no leg of alltoall was measured, and it may lose by what")
    answer = CheckResult("alltoall", "done", legs=tuple(map(as_alltoall, legs)))
    others = prove(record("a", [answer], gpus=gpu_facts(nvlink_links=0)))
    assert (others.kind, others.setting) == ("unproven", None)
    assert others.why.startswith("no leg of all_reduce was measured")


def test_what_breaks_one_collective_needs_no_second_one() -> None:
    answer = CheckResult("alltoall", "done", legs=tuple(map(as_alltoall, [wrong(), OFF])))
    host = prove(record("a", [answer], gpus=gpu_facts(nvlink_links=0)))
    assert (host.kind, host.setting) == ("off_mends", OFF_SETTING)


def test_no_gain_asks_for_no_second_collective() -> None:
    host = prove(gpu_host("a", [leg(peak_gbps=22.0), OFF], nvlink_links=0))
    assert [proof.kind for proof in host.proofs] == ["defaults"]


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
    assert prove(both("a", legs)).kind == kind


def test_sockets_beat_a_default_whose_p2p_off_hangs() -> None:
    host = prove(gpu_host("a", [leg(peak_gbps=14.0), hung("p2p_off"), NET], nvlink_links=0))
    assert host.kind == "net_faster"
    assert "the default is slower than net" in host.why


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
    assert prove(both("a", legs)).kind == kind


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
    ("note", "file"), [(SYSTEM_CONF_NOTE, "/etc/nccl.conf"), (USER_CONF_NOTE, "~/.nccl.conf")]
)
@pytest.mark.parametrize(
    ("default", "p2p_off"), [(30.0, 21.0), (14.0, 21.0), (None, 21.0), (21.0, 21.0)]
)
def test_a_conf_that_every_leg_reads_leaves_no_default(
    default: float | None, p2p_off: float, note: str, file: str
) -> None:
    notes = {"notes": (note,)}
    first = hung(**notes) if default is None else leg(peak_gbps=default, **notes)
    host = prove(gpu_host("a", [first, leg("p2p_off", p2p_off, **notes)], nvlink_links=0))
    assert host.kind == "unproven"
    assert f"{file} exists" in host.why
    assert "move it away" in host.why


@pytest.mark.parametrize(
    ("default", "p2p_off", "kind"),
    [
        (leg(peak_gbps=450.0), leg("p2p_off", 40.0), "split"),
        (leg(peak_gbps=2.0), leg("p2p_off", 18.0), "off_faster"),
        (leg(peak_gbps=18.0), leg("p2p_off", 18.5), "off_faster"),
        (hung(), leg("p2p_off", 18.0), "off_mends"),
        (leg(peak_gbps=18.0), hung("p2p_off"), "split"),
        (leg(peak_gbps=18.0), leg("p2p_off", state="failed", sizes=()), "unproven"),
    ],
)
def test_no_collective_is_harmed_for_another(default: Leg, p2p_off: Leg, kind: str) -> None:
    """all_reduce is faster without P2P by itself; alltoall is given."""
    assert _both([leg(peak_gbps=14.0), OFF], [default, p2p_off]).kind == kind


def _both(reduce: list[Leg], others: list[Leg], nvlinks: int = 0) -> HostProof:
    """Return what a host proves by all_reduce and alltoall."""
    return prove(both("a", reduce, others, nvlink_links=nvlinks))


def test_a_hang_in_one_collective_outweighs_the_speed_of_another() -> None:
    fast_by_default = [leg(peak_gbps=450.0), leg("p2p_off", 40.0)]
    host = _both(fast_by_default, [hung(), leg("p2p_off", 18.0)])
    assert (host.kind, host.setting) == ("off_mends", OFF_SETTING)


def test_nothing_mends_one_collective_by_breaking_another() -> None:
    broken = [leg(peak_gbps=450.0), hung("p2p_off")]
    host = _both(broken, [hung(), leg("p2p_off", 18.0)])
    assert (host.kind, host.setting) == ("neither", None)


def test_which_collective_wins_under_which_leg_is_said() -> None:
    host = _both([leg(peak_gbps=22.0), leg("p2p_off", 18.0)], [leg(peak_gbps=2.0), OFF])
    assert (host.kind, host.setting) == ("split", None)
    assert "all_reduce: the default is faster; net was not compared" in host.why
    assert "alltoall: p2p_off is 950% faster" in host.why


NVL_LEG = leg("nvlink_only", 47.0)


@pytest.mark.parametrize(
    ("legs", "kind", "setting"),
    [
        ([hung(), OFF, NVL_LEG], "off_mends", NVL),
        ([leg(peak_gbps=20.0), OFF, NVL_LEG], "off_faster", NVL),
        ([leg(peak_gbps=47.0), OFF, NVL_LEG], "defaults", None),
        ([hung(), OFF, hung("nvlink_only")], "neither", None),
        ([hung(), OFF, leg("nvlink_only", 47.0, state="not_engaged")], "defect", None),
    ],
)
def test_where_both_kinds_of_pairs_are_nvlinks_are_never_turned_off(
    legs: list[Leg], kind: str, setting: tuple[str, str] | None
) -> None:
    host = prove(both("a", legs, nvlink_links=4))
    assert (host.kind, host.setting) == (kind, setting)


@pytest.mark.parametrize(
    ("reduce", "others", "kind"),
    [
        (40.0, 30.0, "sys_faster"),
        (40.0, 21.0, "sys_faster"),
        (40.0, 2.0, "defaults"),
        (21.0, 21.0, "defaults"),
        (40.0, None, "defaults"),
    ],
)
def test_p2p_through_the_cpus_must_lose_in_no_collective(
    reduce: float, others: float | None, kind: str
) -> None:
    def legs(through_cpus: float | None) -> list[Leg]:
        last = wrong("p2p_sys") if through_cpus is None else leg("p2p_sys", through_cpus)
        return [leg(peak_gbps=21.0), OFF, last]

    host = _both(legs(reduce), legs(others))
    assert (host.kind, host.setting) == (kind, SYS if kind == "sys_faster" else None)


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
