"""Counters that are full, and which address of a RoCE port NCCL takes."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.advise.catalogue import shipped
from hwcheck.judge.host_case import NodeFacts
from hwcheck.node.main import run_check
from hwcheck.testing.cases import outcomes
from hwcheck.testing.fake_node import FakeNode
from tests.checks.test_cases import REGISTRY

PORTS, GIDS = REGISTRY["infiniband_ports"], REGISTRY["roce_gids"]
IPV4 = "0000:0000:0000:0000:0000:ffff:0a00:0001"
IPV6 = "fd00:0000:0000:0000:0000:0000:0000:0001"


def node(**port: Any) -> FakeNode:
    ports = [{"name": "mlx5_0/1", **port}]
    bus = ["0000:18:00.0"]
    return FakeNode({"pci_gpus": bus, "rdma_ports": ports, "uptime_s": 90 * 86400.0})


@pytest.mark.parametrize(
    ("count", "metric", "outcome"),
    [
        (65535, "symbol_errors_full", "warn"),  # 30 an hour by the clock, and nobody knows
        (65534, "symbol_errors_per_hour", "pass"),
    ],
)
def test_a_full_counter_tells_no_rate(count: int, metric: str, outcome: str) -> None:
    result = run_check(PORTS, node(counters={"symbol_error": count}))
    found = outcomes(PORTS, result, NodeFacts({}, {}, mig=False), shipped().models)
    rates = {key: each for key, each in found.items() if key.startswith("symbol_errors_")}
    assert rates == {f"{metric} port mlx5_0/1": outcome}


@pytest.mark.parametrize(
    ("addresses", "index"), [((IPV6, IPV4), 1), ((IPV4, IPV6), 0), ((IPV6,), 0)]
)
def test_ipv4_comes_before_ipv6(addresses: tuple[str, ...], index: int) -> None:
    gids = [
        {"index": place, "address": address, "kind": "RoCE v2"}
        for place, address in enumerate(addresses)
    ]
    result = run_check(GIDS, node(link_layer="Ethernet", gids=gids))
    assert [each.value for each in result.samples if each.metric == "gid_index"] == [index]
