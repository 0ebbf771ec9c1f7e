"""The network that NCCL took against the ports that the node has."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.contract.reasons import Reason
from hwcheck.contract.wire import Leg
from hwcheck.judge.host_case import node_facts
from hwcheck.judge.judge import judge
from hwcheck.judge.network import active_ports, compute_ports, judge_network, named_ports
from hwcheck.node.collective.proof import TEXT
from hwcheck.results.transport import SOCKET
from tests.advise.nodes import record_of
from tests.factories import leg, reduce_result, run
from tests.judge.nodes import host_case, node

FOUR = {f"mlx5_{n}": {"near": {f"gpu{n // 2}": "PIX"}} for n in range(4)}
ALL = "IB " + " ".join(f"mlx5_{n}:1/IB" for n in range(4))


def net(kind: str = "NET/IB", network: str = "", **changes: Any) -> Leg:
    transport = {kind: 16, **({"network": network} if network else {})}
    return leg("net", 9.0, ranks=2, transport=transport, **changes)


def outcomes(ports: dict[str, Any], *legs: Leg, **expect: Any) -> dict[str, str]:
    record = record_of("n", {"ports": ports})
    assert record.report is not None
    report = replace(record.report, results=(*record.report.results, reduce_result(legs)))
    findings = judge_network(host_case(replace(record, report=report), **expect))
    return {finding.metric: finding.outcome for finding in findings}


def test_sockets_beside_active_ports_are_warned_of_and_rdma_passes() -> None:
    assert outcomes(FOUR, net("NET/Socket", "Socket eth0")) == {"network_transport": "warn"}
    passed = {"network_transport": "pass", "network_ports": "pass"}
    assert outcomes(FOUR, net(network=ALL)) == passed
    assert outcomes(FOUR, net("NET/AWS Libfabric")) == {"network_transport": "pass"}


@pytest.mark.parametrize(
    "leg_of",
    [
        net("NET/Socket", exercise=True, backend="gloo"),
        net("NET/Socket", state="hang"),
        leg("net", 9.0, ranks=3, transport={"NET/Socket": 8}),
        leg("p2p_off", 9.0, ranks=2, transport={"NET/Socket": 8}),
        leg("net", 9.0, ranks=2, transport={"SHM": 8}),
    ],
    ids=["gloo", "hang", "not every GPU", "another leg", "no network"],
)
def test_a_leg_that_shows_no_network_says_nothing(leg_of: Leg) -> None:
    assert outcomes(FOUR, leg_of) == {}


@pytest.mark.parametrize(
    ("named", "outcome"),
    [
        ("mlx5_0:1 mlx5_1:1 mlx5_2:1 mlx5_3:1", "pass"),
        ("mlx5_0:1 mlx5_2:1", "pass"),
        ("mlx5_0:1 mlx5_1:1", "warn"),
        ("mlx5_0:1", "warn"),
    ],
    ids=["all", "one for each GPU", "none for one GPU", "one of four"],
)
def test_every_gpu_has_a_port_of_its_own(named: str, outcome: str) -> None:
    network = "IB " + " ".join(f"{name}/IB" for name in named.split())
    assert outcomes(FOUR, net(network=network))["network_ports"] == outcome


def test_a_network_that_only_works_over_sockets_warns_and_does_not_fail() -> None:
    more = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket"}
    second = net("NET/Socket", env=more, first_failure="rank 0: plugin: no usable device")
    findings = list(judge_network(host_case(node("n", [leg(ranks=2), second], gpus=2))))
    (warning,) = findings
    assert (warning.metric, warning.outcome) == ("network_transport", "warn")
    assert "plugin: no usable device; over sockets it is well" in warning.reason.text
    second = leg("net", 9.0, env=more, first_failure=second.first_failure, transport={SOCKET: 16})
    whole = run(node("n", [leg(), second, leg("p2p_off")]), checks=("all_reduce",))
    said = {(f.metric, f.outcome) for f in judge(whole, shipped()).findings if f.outcome != "pass"}
    assert ("network_transport", "warn") in said
    assert not {"fail", "inconclusive"} & {outcome for _, outcome in said}, said
    # The variables of a second try without a first one are not the leg's, and a failure is one.
    (plain,) = judge(
        run(node("n", [replace(second, first_failure="")])), shipped()
    ).by_host.values()
    assert any("its plan is" in finding.reason.text for finding in plain)
    broken = replace(
        second, state="failed", reason=Reason("not_measured", "rank 0: no socket"), sizes=()
    )
    assert not list(judge_network(host_case(node("n", [broken]))))
    assert "fail" in {f.outcome for f in judge(run(node("n", [broken])), shipped()).findings}


def test_names_that_the_node_does_not_know_say_nothing() -> None:
    assert "network_ports" not in outcomes(FOUR, net(network="IB vnic_0:1/IB"))
    cut = net(network=("IB " + " ".join(f"mlx5_{n}:1/RoCE" for n in range(40)))[:TEXT])
    assert named_ports(cut) == set()
    assert "network_ports" not in outcomes(FOUR, cut)


@pytest.mark.parametrize(
    ("ports", "expect", "chosen"),
    [
        ({"a": {"near": {"gpu0": "PXB"}}, "b": 400}, {}, ["a:1"]),
        ({"a": 400, "b": 200}, {}, ["a:1"]),
        ({"a": {"layer": "Ethernet"}}, {}, []),
        ({"a": {"layer": "Ethernet", "near": {"gpu0": "NODE"}}}, {}, []),
        ({"a": {"layer": "Ethernet", "near": {"gpu0": "PIX"}}}, {}, ["a:1"]),
        ({"a": {"layer": "Ethernet", "gbps": 25}}, {"rdma_ports": 1}, ["a:1"]),
        ({"a": 56}, {}, []),
    ],
    ids=["near", "fastest", "Ethernet", "far Ethernet", "near Ethernet", "declared", "slow"],
)
def test_the_ports_for_collectives(
    ports: dict[str, Any], expect: dict[str, Any], chosen: list[str]
) -> None:
    record = record_of("n", {"ports": ports})
    assert [
        port.name for port in compute_ports(active_ports(record), node_facts(expect, record))
    ] == chosen


def test_ports_that_are_down_do_not_count() -> None:
    said = {"active_ports": 0, "linked_state": {"port mlx5_0/1": "INIT"}}
    record = record_of("n", {"samples": {"infiniband_ports": said}})
    assert active_ports(record) == []


ERROR = "n1:7 NCCL WARN NET/IB: Got completion from peer 10.0.0.2<4> with status=12 opcode=0"


@pytest.mark.parametrize(
    "text",
    [
        ERROR,
        "n1:7 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4> with error 12, opcode 0",
        "n1:7 net_ib.cc:97 NCCL WARN NET/IB : mlx5_1:1 Got async event : port error",
    ],
)
def test_network_errors_of_a_leg_that_came_to_its_end_are_warned_of(text: str) -> None:
    clean = net(network=ALL, log_tail=f"NCCL INFO Init\n{text}\nNCCL INFO done")
    assert outcomes(FOUR, clean)["network_errors"] == "warn"
    assert outcomes({}, leg("default", ranks=2, log_tail=text)) == {"network_errors": "warn"}


@pytest.mark.parametrize(
    "text",
    [
        "NCCL WARN NET/IB : mlx5_1:1 Got async event : client reregistration",
        "NCCL WARN NET/IB : mlx5_1:1 Got async event : port active",
        "NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]",
        "a program that says Got completion from peer",
    ],
)
def test_other_words_of_the_network_are_not(text: str) -> None:
    assert "network_errors" not in outcomes(FOUR, net(network=ALL, log_tail=text))


def test_a_leg_that_failed_by_them_has_a_finding_of_its_own() -> None:
    assert outcomes(FOUR, net(state="failed", log_tail=ERROR)) == {}


@pytest.mark.parametrize(
    ("offered", "gdrdma", "outcome"),
    [(True, 0, "warn"), (True, 16, "pass"), (False, 0, None), (None, 0, None), (True, None, None)],
)
def test_gpudirect_that_is_offered_should_be_used(
    offered: bool | None, gdrdma: int | None, outcome: str | None
) -> None:
    clean = net(network=ALL)
    if gdrdma is not None:
        clean = replace(clean, transport={**clean.transport, "gdrdma": gdrdma})
    case: dict[str, Any] = {"ports": FOUR}
    if offered is not None:
        case["samples"] = {"peermem": {"gpudirect_rdma": offered}}
    record = record_of("n", case)
    assert record.report is not None
    report = replace(record.report, results=(*record.report.results, reduce_result([clean])))
    found = judge_network(host_case(replace(record, report=report)))
    assert {f.metric: f.outcome for f in found}.get("gpudirect_used") == outcome
