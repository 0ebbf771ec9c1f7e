"""NVLink between hosts of one domain: what NCCL says and what turning it off costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.judge.judge import judge
from hwcheck.judge.mnnvl import METRIC, NOT_IN_USE
from hwcheck.judge.records import MULTI_HOST, Finding
from hwcheck.results.multi_host import (
    MNNVL_OFF,
    MultiHostRecord,
    MultiHostRun,
    MultiHostTiming,
    Transport,
)
from tests.judge.test_multi_host import run_of

GIB = 1 << 30
HOSTS = ("a", "b")
MNNVL, IB, SOCKET = {"P2P/MNNVL": 64}, {"P2P/CUMEM": 32, "NET/IB": 8}, {"NET/Socket": 4}


def one_run(
    why: str, gbps: float, ways: dict[str, int], size: int = GIB, spread: float = 0.01
) -> MultiHostRun:
    timing = MultiHostTiming(size, 5, 1.0, spread, gbps, gbps, gbps, 0)
    transport = (Transport(HOSTS, ways),) if ways else ()
    return MultiHostRun(
        *(why, 0, HOSTS, "all_reduce", 8, "done"),
        sizes=(timing,),
        transport=transport,
        library="NCCL 2.27.5",
    )


def record_of(*runs: MultiHostRun) -> MultiHostRecord:
    return MultiHostRecord(("all",), HOSTS, "nccl", runs, finished=True)


def of_mnnvl(record: MultiHostRecord) -> list[Finding]:
    judged = judge(run_of("pass", "pass"), shipped(), record)
    return [each for each in judged.findings if each.metric == METRIC]


ON, OFF = one_run("all", 840.0, MNNVL), one_run(MNNVL_OFF, 191.0, IB)


def test_in_use() -> None:
    findings = of_mnnvl(record_of(ON, OFF))
    assert [(each.host, each.outcome, each.value) for each in findings] == [
        ("a", "pass", 840.0),
        ("b", "pass", 840.0),
    ]
    assert "191" in findings[0].limit, "both figures are shown"


@pytest.mark.parametrize(
    ("runs", "reason"),
    [
        ((one_run("all", 190.0, IB), OFF), "NCCL used NET/IB"),
        ((one_run("all", 4.0, SOCKET), OFF), "NCCL used NET/Socket"),
        ((one_run("all", 838.0, IB), one_run(MNNVL_OFF, 837.8, IB)), "NCCL used NET/IB"),
        ((one_run("pairs", 195.0, MNNVL), OFF), "195 GB/s, and 191 without it"),
        ((one_run("all", 200.0, {}), OFF), "200 GB/s, and 191 without it"),
        ((one_run("all", 240.0, MNNVL, spread=0.4), OFF), "240 GB/s, and 191 without it"),
    ],
)
def test_not_in_use(runs: Sequence[MultiHostRun], reason: str) -> None:
    findings = of_mnnvl(record_of(*runs))
    assert [each.outcome for each in findings] == ["warn", "warn"]
    assert findings[0].reason.text == f"{NOT_IN_USE} between hosts of one NVLink domain: {reason}"
    assert (findings[0].check, findings[0].subject) == (MULTI_HOST, "node")


@pytest.mark.parametrize(
    "runs",
    [
        (one_run("all", 190.0, IB),),
        (ON, replace(OFF, state="failed", sizes=())),
        (one_run("split", 190.0, IB), OFF),
        (one_run("all", 190.0, IB, size=GIB // 2), OFF),
    ],
    ids=["an HGX node", "it failed", "another run", "another size"],
)
def test_nothing_to_hold_it_against(runs: Sequence[MultiHostRun]) -> None:
    assert of_mnnvl(record_of(*runs)) == []


def test_small_messages_are_latency() -> None:
    small = [one_run("all", 3.0, MNNVL, size=1 << 20), one_run(MNNVL_OFF, 2.9, IB, size=1 << 20)]
    assert {each.outcome for each in of_mnnvl(record_of(*small))} == {"pass"}


def test_a_run_that_used_it_all_the_same_proves_nothing() -> None:
    judged = judge(
        run_of("pass", "pass"), shipped(), record_of(ON, one_run(MNNVL_OFF, 838.0, MNNVL))
    )
    open_ends = [each for each in judged.findings if each.outcome == "inconclusive"]
    assert {each.host for each in open_ends} == {"a", "b"}
    assert all("NCCL_MNNVL_ENABLE=0 too" in each.reason.text for each in open_ends)


def test_its_cause() -> None:
    advice = assess(
        run_of("pass", "pass"), shipped(), record_of(one_run("all", 190.0, IB), OFF)
    ).advice
    (action,) = advice.actions
    assert (action.title, action.outcome, action.hosts) == (NOT_IN_USE, "warn", HOSTS)
    assert "IMEX" in action.cause
    assert assess(run_of("pass", "pass"), shipped(), record_of(ON, OFF)).advice.actions == ()
