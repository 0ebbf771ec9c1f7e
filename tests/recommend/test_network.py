from __future__ import annotations

from dataclasses import replace

import pytest

from hwcheck.recommend.network import network_settings
from hwcheck.results import HostRecord
from hwcheck.wire import CheckResult, Sample
from tests.factories import gpu_host, leg

FAST = {"mlx5_0/1": 400.0, "mlx5_1/1": 400.0, "mlx5_10/1": 400.0}
SLOW = {"mlx5_2/1": 25.0}


def _host(
    name: str,
    network: str,
    rates: dict[str, float] | None = None,
    *,
    gids: dict[str, int | None] | None = None,
    library: str = "NCCL 2.27.5",
) -> HostRecord:
    """A host whose leg net went by ``network``, with the ports of these rates and GIDs."""
    net = leg("net", 9.0, transport={"network": network} if network else {}, library=library)
    made = gpu_host(name, [leg(library=library), leg("p2p_off", 40.0, library=library), net])
    ports = [
        sample
        for port, rate in (rates or {}).items()
        for sample in (
            Sample("linked_state", "ACTIVE", subject=f"port {port}"),
            Sample("port_rate_gbps", rate, "Gb/s", f"port {port}"),
        )
    ]
    table = [
        sample
        for port, index in (gids or {}).items()
        for sample in (
            Sample("routable_gids", int(index is not None), "GIDs", f"port {port}"),
            *([] if index is None else [Sample("gid_index", index, "", f"port {port}")]),
        )
    ]
    answers = (
        CheckResult("infiniband_ports", "done", samples=tuple(ports)),
        CheckResult("roce_gids", "done", samples=tuple(table)),
    )
    assert made.report is not None
    return replace(made, report=replace(made.report, results=(*made.report.results, *answers)))


def _named(*records: HostRecord) -> dict[str, str]:
    return {setting.name: setting.value for setting in network_settings(records)}


ALL_PORTS = "IB mlx5_0:1/IB mlx5_1:1/IB mlx5_2:1/RoCE mlx5_10:1/IB"
FAST_PORTS = "IB mlx5_0:1/IB mlx5_1:1/IB mlx5_10:1/IB"


@pytest.mark.parametrize(
    ("network", "rates", "wanted"),
    [
        (ALL_PORTS, FAST | SLOW, {"NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1,mlx5_10:1"}),
        (FAST_PORTS, FAST | SLOW, {}),
        (FAST_PORTS, FAST, {}),
        (ALL_PORTS, {}, {}),
        ("", FAST | SLOW, {}),
    ],
)
def test_ports_are_named_only_where_nccl_uses_a_slower_one(network, rates, wanted) -> None:
    assert _named(_host("a", network, rates), _host("b", network, rates)) == wanted


def test_hosts_whose_ports_have_other_names_get_none() -> None:
    other = {"mlx5_3/1": 400.0, **SLOW}
    hosts = [_host("a", ALL_PORTS, FAST | SLOW), _host("b", "IB mlx5_2:1/RoCE", other)]
    assert _named(hosts[0]) != {}
    assert _named(hosts[1]) == {"NCCL_IB_HCA": "=mlx5_3:1"}
    assert _named(*hosts) == {}


@pytest.mark.parametrize(
    ("network", "wanted"),
    [
        ("Socket eth0 virbr0", {"NCCL_SOCKET_IFNAME": "^lo,docker,virbr0"}),
        ("Socket eth0", {}),
        ("Socket virbr0", {}),
        ("Socket eth0 eth1", {}),
        ("IB virbr0:1/IB", {}),
        ("Socket eth0 virbr0;rm", {}),
    ],
)
def test_an_interface_that_leads_nowhere_is_left_out(network: str, wanted) -> None:
    assert _named(_host("a", network)) == wanted


@pytest.mark.parametrize(
    ("gids", "library", "wanted"),
    [
        ({"mlx5_0/1": 3, "mlx5_1/1": 3}, "NCCL 2.20.5", {"NCCL_IB_GID_INDEX": "3"}),
        ({"mlx5_0/1": 3}, "NCCL 2.21.5", {}),
        ({"mlx5_0/1": 3, "mlx5_1/1": 1}, "NCCL 2.20.5", {}),
        ({"mlx5_0/1": 3, "mlx5_1/1": None}, "NCCL 2.20.5", {}),
        ({"mlx5_0/1": 0}, "NCCL 2.20.5", {}),
        ({}, "NCCL 2.20.5", {}),
        ({"mlx5_0/1": 3}, "", {}),
    ],
)
def test_a_gid_is_named_only_to_an_nccl_that_finds_none(gids, library: str, wanted) -> None:
    hosts = [_host(name, "", gids=gids, library=library) for name in "ab"]
    assert _named(*hosts) == wanted
    assert _named(*hosts, _host("c", "", gids={"mlx5_0/1": 5}, library=library)) == {}


def test_a_setting_has_what_it_rests_on() -> None:
    (setting,) = network_settings([_host("a", ALL_PORTS, FAST | SLOW)])
    assert "mlx5_2:1 (25 Gb/s)" in setting.reason
    assert setting.evidence == (f"a: the leg net goes by {ALL_PORTS}",)
    assert setting.measured_with.startswith("NCCL 2.27.5, driver 570.86.15")
    assert setting.retest.startswith("Test again after")


def test_cross_nic_is_never_set() -> None:
    hosts = [_host("a", ALL_PORTS, FAST | SLOW), _host("b", "Socket eth0 virbr0")]
    assert all("NCCL_CROSS_NIC" not in _named(host) for host in hosts)
