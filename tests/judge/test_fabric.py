"""The bandwidth between hosts against the rates of their ports, where all are equally slow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from hwcheck.advise.assessment import assess
from hwcheck.advise.catalogue import shipped
from hwcheck.checks.shared.leg_checks import BUSBW_GBPS
from hwcheck.contract.wire import CheckResult, Sample
from hwcheck.judge.judge import judge
from hwcheck.judge.records import MULTI_HOST, Finding
from hwcheck.results.multi_host import (
    MultiHostRecord,
    MultiHostRun,
    MultiHostTiming,
    Suspect,
    Transport,
)
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.testing.cases import answer_of
from tests import factories
from tests.factories import gpu_facts, record
from tests.judge.nodes import pcie, topology

GIB = 1 << 30
H100 = "NVIDIA H100 80GB HBM3"


def host(
    name: str, ports: int = 8, gbps: float = 400.0, gpus: int = 8, path: str = "NV18", link: int = 5
) -> HostRecord:
    """Return a host whose ports are on cards of their own, and its GPUs."""
    names = [f"mlx5_{n}" for n in range(ports)]
    each = [f"port {port}/1" for port in names]
    answers = [pcie(gpus, link)]
    way = (
        topology(gpus, path, switched=path == "NV18")
        if gpus > 1
        else CheckResult("topology", "done")
    )
    cards = [Sample("pci_address", f"0000:{n:02x}:00.0", "", port) for n, port in enumerate(names)]
    answers.append(replace(way, samples=(*way.samples, *cards)))
    if ports:
        answers.append(
            answer_of(
                "infiniband_ports",
                {
                    "active_ports": ports,
                    "link_layer": dict.fromkeys(each, "InfiniBand"),
                    "linked_state": dict.fromkeys(each, "ACTIVE"),
                    "port_rate_gbps": dict.fromkeys(each, gbps),
                    "firmware": dict.fromkeys(each, "28.39.2048"),
                    "firmware_of_most": dict.fromkeys(each, "28.39.2048"),
                },
                shipped().checks,
            )
        )
    facts = [{**gpu, "uuid": f"GPU-{name}-{gpu['index']}"} for gpu in gpu_facts(gpus, H100)]
    return record(name, answers, gpus=facts)


def rdma(ports: int, **more: Any) -> Mapping[str, Any]:
    network = "IB " + " ".join(f"mlx5_{n}:1/IB" for n in range(ports))
    return {"NET/IB": 16, "gdrdma": True, "network": network, **more}


SOCKETS = {"NET/Socket": 8, "network": "Socket eth0:10.0.0.1"}


def timed(
    why: str,
    hosts: Sequence[str],
    busbw: float,
    facts: Mapping[str, Any],
    size: int = GIB,
    collective: str = "all_reduce",
) -> MultiHostRun:
    timing = MultiHostTiming(size, 20, 1000.0, 0.02, busbw, busbw, busbw, 0)
    return MultiHostRun(
        *(why, 0, tuple(hosts), collective, 8 * len(hosts), "done"),
        library="NCCL 2.27.5",
        sizes=(timing,),
        transport=(Transport(tuple(hosts), facts),),
    )


def recorded(*runs: MultiHostRun, **changes: Any) -> MultiHostRecord:
    hosts = tuple(dict.fromkeys(name for run in runs for name in run.hosts))
    return MultiHostRecord(("pairs",), hosts, "nccl", runs, finished=True, **changes)


def run_of(hosts: Sequence[HostRecord]) -> Run:
    return factories.run(*hosts, checks=("pcie_link", "topology", "infiniband_ports"))


def judged(hosts: Sequence[HostRecord], multi_host: MultiHostRecord) -> list[Finding]:
    findings = judge(run_of(hosts), shipped(), multi_host).findings
    return [f for f in findings if (f.check, f.metric) == (MULTI_HOST, BUSBW_GBPS.name)]


def outcomes(hosts: Sequence[HostRecord], multi_host: MultiHostRecord) -> list[str]:
    return [finding.outcome for finding in judged(hosts, multi_host)]


PUBLISHED = {
    "2 x 8 H100, OCI": (2, 471.2, 16, {}),
    "2 x 8 H100, EFA": (2, 437.8, 8, {}),
    "2 x 8 H100, RoCE": (2, 330.0, 8, {}),
    "2 x 8 A100, 8 x 200": (2, 188.5, 4, {"gbps": 200.0, "link": 4}),
    "4 x DGX A100": (4, 191.1, 4, {"gbps": 200.0, "link": 4}),
    "2 x 8 A100, 4 x 200, reported as low": (2, 86.0, 4, {"gbps": 200.0, "ports": 4, "link": 4}),
    "4 x 8 B200": (4, 381.8, 16, {}),
    "2 x 4 GH200": (2, 122.6, 0.125, {"gbps": 200.0, "ports": 4, "gpus": 4}),
    "2 x 1 GH200": (2, 22.9, 0.125, {"gbps": 200.0, "ports": 1, "gpus": 1}),
}
"""Hosts, GB/s and GiB, by what was published (nccl-field-notes, section 6)."""


@pytest.mark.parametrize("case", PUBLISHED)
def test_published_figures_of_healthy_fabrics_pass(case: str) -> None:
    count, busbw, gib, machine = PUBLISHED[case]
    names = [f"n{n}" for n in range(count)]
    hosts = [host(name, **machine) for name in names]  # type: ignore[arg-type]
    ports = int(machine.get("ports", 8))
    run = timed("all", names, busbw, rdma(ports), int(gib * GIB))
    found = judged(hosts, recorded(run))
    assert [f.outcome for f in found] == ["pass"] * count
    assert all(f.limit and f.source for f in found), "they were held against something"


@pytest.mark.parametrize("scope", ["pairs", "all"])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_a_fabric_that_is_slow_as_a_whole(scope: str, share: float) -> None:
    names = ["a", "b", "c", "d"]
    hosts = [host(name) for name in names]
    sets = [("a", "b"), ("c", "d")] if scope == "pairs" else [tuple(names)]
    runs = [timed(scope, some, 390 * share, rdma(8)) for some in sets]
    found = judged(hosts, recorded(*runs))
    assert [(f.host, f.outcome) for f in found] == [(name, "warn") for name in names]
    assert "from 8 RDMA ports, 3200 Gb/s together" in found[0].reason.text
    healthy = [timed(scope, some, 390.0, rdma(8)) for some in sets]
    assert outcomes(hosts, recorded(*healthy)) == ["pass"] * 4


def test_the_best_run_of_a_host_counts() -> None:
    hosts = [host(name) for name in "abc"]
    runs = [timed("pairs", "ab", 100.0, rdma(8)), timed("pairs", "bc", 390.0, rdma(8))]
    assert outcomes(hosts, recorded(*runs)) == ["warn", "pass", "pass"]


def test_a_host_that_is_accused_is_not_held_against_its_ports() -> None:
    hosts = [host(name) for name in "ab"]
    slow = timed("pairs", "ab", 40.0, rdma(8))
    assert outcomes(hosts, recorded(slow)) == ["warn", "warn"]
    accused = recorded(slow, suspects=(Suspect(("a",), "slow", ("x",)),))
    assert outcomes(hosts, accused) == []


@pytest.mark.parametrize(
    ("gbps", "busbw", "outcome"),
    [
        (25.0, 2.0, "pass"),  # 1 x T4, TCP
        (200.0, 5.4, "pass"),  # GH200 over sockets
        (10.0, 1.1, "pass"),
        (10.0, 0.12, "warn"),
        (10.0, 0.6, "warn"),
        (100.0, 0.12, "warn"),
    ],
)
def test_over_sockets_the_interface_tells(gbps: float, busbw: float, outcome: str) -> None:
    hosts = [host(name, ports=0) for name in "ab"]
    run = timed("pairs", "ab", busbw, SOCKETS)
    found = judged(hosts, recorded(run, interface_gbps=dict.fromkeys("ab", gbps)))
    assert [f.outcome for f in found] == [outcome] * 2


@pytest.mark.parametrize(
    ("hosts", "facts", "words"),
    [
        ([host(n, ports=0) for n in "ab"], SOCKETS, "rate of the network interface of a"),
        ([host(n, ports=0) for n in "ab"], rdma(8), "rates of the RDMA ports"),
        ([host(n) for n in "ab"], {"NET/AWS Libfabric": 8}, "is NET/AWS Libfabric"),
        ([host(n) for n in "ab"], rdma(8, network=""), "rates of the RDMA ports"),
    ],
)
def test_where_nothing_is_known_it_says_so_and_gives_no_verdict(
    hosts: Sequence[HostRecord], facts: Mapping[str, Any], words: str
) -> None:
    found = judged(hosts, recorded(timed("pairs", "ab", 0.1, facts)))
    assert [f.outcome for f in found] == ["pass", "pass"]
    assert all(words in f.reason.text and not f.limit for f in found)


def test_other_runs_are_not_held_against_it() -> None:
    hosts = [host(name) for name in "ab"]
    nvlink = timed("pairs", "ab", 1.0, {"P2P/CUMEM": 8})
    small = timed("pairs", "ab", 1.0, rdma(8), 1 << 20)
    others = (nvlink, small, timed("pairs", "ab", 1.0, rdma(8), collective="alltoall"))
    assert outcomes(hosts, recorded(*others, timed("rail 0", "ab", 1.0, rdma(8)))) == []


def test_what_is_narrower_than_the_network_counts() -> None:
    """GPUs that reach each other through memory, a host without GPUDirect, unlike hosts."""
    hosts = [host(name, ports=1, gpus=4, path="NODE", link=4) for name in "ab"]
    assert outcomes(hosts, recorded(timed("pairs", "ab", 15.0, rdma(1)))) == ["pass"] * 2
    staged = {**rdma(8), "gdrdma": False}
    hosts = [host(name) for name in "ab"]
    assert outcomes(hosts, recorded(timed("pairs", "ab", 180.0, staged))) == ["pass"] * 2
    mixed = [host("a"), host("b", gbps=100.0)]
    assert outcomes(mixed, recorded(timed("pairs", "ab", 95.0, rdma(8)))) == ["pass"] * 2


def test_both_ports_of_a_card_share_its_pcie_link() -> None:
    hosts = [host(name, ports=2, gbps=200.0) for name in "ab"]
    made = []
    for one in hosts:
        assert one.report is not None
        results = tuple(
            replace(
                answer,
                samples=tuple(
                    replace(s, value="0000:00:00.1") if s.subject == "mlx5_1" else s
                    for s in answer.samples
                ),
            )
            if answer.check == "topology"
            else answer
            for answer in one.report.results
        )
        made.append(replace(one, report=replace(one.report, results=results)))
    run = timed("pairs", "ab", 23.0, rdma(2))
    assert outcomes(made, recorded(run)) == ["pass"] * 2
    assert outcomes(hosts, recorded(run)) == ["warn"] * 2, "on cards of their own"


def test_the_report_has_an_action_for_it() -> None:
    hosts = [host(name) for name in "ab"]
    assessment = assess(run_of(hosts), shipped(), recorded(timed("pairs", "ab", 40.0, rdma(8))))
    (action,) = assessment.advice.actions
    assert (action.title, action.outcome) == ("the fabric as a whole: slow (pairs)", "warn")
    assert action.hosts == ("a", "b")
    fast = assess(run_of(hosts), shipped(), recorded(timed("pairs", "ab", 390.0, rdma(8))))
    assert fast.advice.actions == ()
