"""What legs a node can have, and what is right to set for each: most often nothing.

Figures are busbw in GB/s. The reasons are those of NCCL's own documents and of the threads that
are named; the figures of rows that name one are near those of that thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from hwcheck.advise.records import NcclAdvice
from hwcheck.contract.collective_spec import SYSTEM_CONF_NOTE
from hwcheck.contract.wire import CheckResult, Leg
from hwcheck.results.run_folder import HostRecord
from tests.advise.both import cluster_advice
from tests.factories import (
    CHECKS,
    MIB,
    as_alltoall,
    cpu_results,
    gpu_facts,
    hung,
    leg,
    record,
    results,
    run,
    wrong,
)

OFF = "NCCL_P2P_DISABLE=1"
NVL = "NCCL_P2P_LEVEL=NVL"
SYS = "NCCL_P2P_LEVEL=SYS"
UNSET = ""


@dataclass(frozen=True)
class Row:
    """Legs of all_reduce and of alltoall, the NVLinks of each GPU, the answer and its reason."""

    name: str
    reduce: Sequence[Leg]
    right: str
    why: str
    alltoall: Sequence[Leg] = ()
    nvlinks: int | None = 0
    gpus: int = 8


def on(gbps: float, **changes: object) -> Leg:
    return leg("default", gbps, **changes)


def off(gbps: float, **changes: object) -> Leg:
    return leg("p2p_off", gbps, **changes)


def net(gbps: float) -> Leg:
    return leg("net", gbps)


NOTED = {"notes": (SYSTEM_CONF_NOTE,)}
FAILED = {"state": "failed", "reason": "error 205", "sizes": ()}
SHORT = {"largest": 8 * MIB}
SAME = (on(20), off(20), net(9))
ABSENT = {"state": "not_engaged", "reason": "NCCL used SHM"}

TABLE = (
    # Nothing to set: the node is as it should be.
    Row("nvswitch", [on(480), off(40), net(9)], UNSET, "measured best", nvlinks=18),
    # NVIDIA/nccl-tests issue 228: P2P off on NVLinks costs most of the bandwidth.
    Row("bridged", [on(47.5), off(1.4), net(1)], UNSET, "measured best", nvlinks=4),
    Row("alike", [on(20), off(20), net(9)], UNSET, "measured best"),
    # 8 % more is less than any two runs may differ by, and 15 % less than these two do.
    Row("eight percent", [on(20), off(21.6), net(9)], UNSET, "measured best"),
    Row(
        "within the spread",
        [on(20, spread=0.1), off(23, spread=0.1), net(9)],
        UNSET,
        "measured best",
    ),
    # A hang or wrong data that P2P off mends.
    Row("hang", [hung(), off(21), net(9)], OFF, "proven on n"),
    Row("corruption", [wrong(peak_gbps=30.0), off(21), net(9)], OFF, "proven on n"),
    Row(
        "corruption of one collective",
        [on(20), off(20), net(9)],
        OFF,
        "proven on n",
        alltoall=[wrong(peak_gbps=20.0), off(20), net(9)],
    ),
    # NVLink is never turned off: on a node with bridged pairs only PCIe P2P is.
    Row(
        "hang over PCIe beside NVLinks",
        [hung(), off(5), net(2), leg("nvlink_only", 47)],
        NVL,
        "proven on n",
        nvlinks=4,
    ),
    Row(
        "slow over PCIe beside NVLinks",
        [on(14), off(5), net(2), leg("nvlink_only", 20)],
        NVL,
        "proven on n",
        alltoall=[on(14), off(5), net(2), leg("nvlink_only", 14)],
        nvlinks=4,
    ),
    Row("hang on NVSwitch", [hung(), off(21), net(9)], UNSET, "a defect", nvlinks=18),
    Row("P2P off wins on NVSwitch", [on(30), off(60), net(9)], UNSET, "a defect", nvlinks=18),
    Row("NVLinks not read", [hung(), off(21), net(9)], UNSET, "could not be read", nvlinks=None),
    # NVIDIA/nccl issue 1603: all_reduce gains by P2P, alltoall loses nine tenths.
    Row(
        "one gains, one loses",
        [on(22), off(18), net(9)],
        UNSET,
        "it depends on the collective",
        alltoall=[on(2), off(18), net(9)],
    ),
    Row(
        "one gains, one does not care",
        [on(18), off(18), net(9)],
        OFF,
        "proven on n",
        alltoall=[on(2), off(18), net(9)],
    ),
    Row(
        "one gains, the other hangs without P2P",
        [on(14), off(18), net(9)],
        UNSET,
        "leave unset",
        alltoall=[on(14), hung("p2p_off"), net(9)],
    ),
    # What nobody measured may be the one that loses.
    Row("one gains, the other not measured", [on(14), off(18), net(9)], UNSET, "of alltoall was"),
    Row(
        "one gains beside NVLinks, the other not measured",
        [on(14), off(5), net(2), leg("nvlink_only", 20)],
        UNSET,
        "no leg of alltoall was measured",
        nvlinks=4,
    ),
    Row(
        "alltoall gains, all_reduce not measured", [], UNSET, "of all_reduce was", [on(2), off(18)]
    ),
    # A hang or wrong data needs no second one: P2P must not be used where it breaks anything.
    Row("alltoall hangs, all_reduce not measured", [], OFF, "proven on n", [hung(), off(18)]),
    # P2P through the CPUs, as patched drivers allow it: where every collective gains.
    Row(
        "P2P everywhere",
        [on(28), off(28), net(9), leg("p2p_sys", 45)],
        SYS,
        "proven on n",
        alltoall=[on(18), off(18), net(9), leg("p2p_sys", 18)],
    ),
    Row(
        "P2P everywhere, alltoall not measured",
        [on(28), off(28), net(9), leg("p2p_sys", 45)],
        UNSET,
        "no leg of alltoall was measured",
    ),
    Row(
        "P2P everywhere, bad for alltoall",
        [on(28), off(28), net(9), leg("p2p_sys", 45)],
        UNSET,
        "measured best",
        alltoall=[on(18), off(18), net(9), leg("p2p_sys", 2)],
    ),
    # NVIDIA/open-gpu-kernel-modules issue 1257: fast, and wrong.
    Row(
        "P2P everywhere corrupts",
        [on(28), off(28), net(9), wrong("p2p_sys", peak_gbps=45.0)],
        UNSET,
        "measured best",
    ),
    # What P2P is not the cause of.
    Row("hang either way", [hung(), hung("p2p_off"), net(9)], UNSET, "not shown to be the cause"),
    Row("hang without GPUs' ways", [hung(), off(21), hung("net")], UNSET, "not shown to be"),
    Row("sockets win", [on(1), off(0.5), net(9)], UNSET, "a defect in the transport"),
    # What proves nothing.
    Row("an error", [on(1, **FAILED), off(21), net(9)], UNSET, "no proof against P2P"),
    Row(
        "mended below the size that is bad",
        [wrong(peak_gbps=30.0), off(21, largest=64 * MIB), net(9)],
        UNSET,
        "no proof of a mend",
    ),
    Row("latency only", [on(14, **SHORT), off(21, **SHORT)], UNSET, "what is smaller is latency"),
    Row("P2P off did not come about", [on(14), off(21, **ABSENT)], UNSET, "did not use what it is"),
    Row("a conf in the way", [on(14, **NOTED), off(21, **NOTED)], UNSET, "/etc/nccl.conf exists"),
    Row("one GPU", [on(14, ranks=1), off(21, ranks=1)], UNSET, "one GPU has no peer", gpus=1),
    Row("no leg without P2P", [on(14), net(9)], UNSET, "the leg p2p_off was not measured"),
)


def _host(row: Row) -> HostRecord:
    answers = [*results(row.reduce, row.gpus)][0 if row.reduce else 1 :]
    others = tuple(as_alltoall(each) for each in row.alltoall)
    if others:
        answers.append(CheckResult("alltoall", "done", legs=others))
    return record("n", answers, gpus=gpu_facts(row.gpus, nvlink_links=row.nvlinks))


def _advice(row: Row) -> NcclAdvice:
    return cluster_advice(run(_host(row), checks=(*CHECKS, "alltoall")))


@pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
def test_each_leg_set_gets_its_right_answer(row: Row) -> None:
    advice = _advice(row)
    wanted = [row.right] if row.right else []
    assert [f"{setting.name}={setting.value}" for setting in advice.settings] == wanted
    assert row.why in advice.summary
    assert advice.summary.startswith("set " if row.right else "leave unset")


def test_a_cpu_only_node_is_left_alone() -> None:
    advice = cluster_advice(run(record("c", cpu_results())))
    assert advice.settings == ()
    assert "says nothing about GPUs" in advice.summary


@pytest.mark.parametrize("row", TABLE, ids=[row.name for row in TABLE])
def test_where_there_are_or_may_be_nvlinks_they_stay_on(row: Row) -> None:
    linked = [18, 4, None] if row.nvlinks == 0 else [row.nvlinks]
    for links in linked:
        changed = Row(**(vars(row) | {"nvlinks": links}))
        assert all(setting.name != "NCCL_P2P_DISABLE" for setting in _advice(changed).settings)


@pytest.mark.parametrize(
    ("name", "mended", "right"),
    [
        ("hang", {"reduce": [on(30), off(21), net(9)]}, UNSET),
        ("eight percent", {"reduce": [on(20), off(24), net(9)], "alltoall": SAME}, OFF),
        ("one gains, one loses", {"reduce": [on(14), off(18), net(9)]}, OFF),
        ("one gains, the other not measured", {"alltoall": SAME}, OFF),
        ("alltoall gains, all_reduce not measured", {"reduce": SAME}, OFF),
        ("P2P everywhere, alltoall not measured", {"alltoall": [*SAME, leg("p2p_sys", 20)]}, SYS),
        ("P2P everywhere, bad for alltoall", {"alltoall": [*SAME, leg("p2p_sys", 20)]}, SYS),
        (
            "P2P everywhere corrupts",
            {
                "reduce": [on(28), off(28), leg("p2p_sys", 45)],
                "alltoall": [*SAME, leg("p2p_sys", 20)],
            },
            SYS,
        ),
        ("latency only", {"reduce": [on(14), off(21)], "alltoall": SAME}, OFF),
        ("a conf in the way", {"reduce": [on(14), off(21)], "alltoall": SAME}, OFF),
        ("hang on NVSwitch", {"nvlinks": 0}, OFF),
    ],
)
def test_the_answer_hangs_on_the_one_thing_that_the_row_is_about(name, mended, right) -> None:
    row = next(row for row in TABLE if row.name == name)
    assert row.right != right, "the row itself has another answer"
    changed = Row(**(vars(row) | mended))
    wanted = [right] if right else []
    assert [f"{s.name}={s.value}" for s in _advice(changed).settings] == wanted
