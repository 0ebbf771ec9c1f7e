from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import NcclSetting
from hwcheck.contract.quantities import Fabric
from hwcheck.node.multi_host.place import description_of, local_address


def node(states: list[str], settings: list[NcclSetting], *fabrics: Fabric | None) -> Any:
    ports = [SimpleNamespace(state=state) for state in states]
    host = SimpleNamespace(rdma_ports=lambda: ports, nccl_settings=lambda: settings)
    gpus = [
        SimpleNamespace(name=lambda: "NVIDIA H100 80GB HBM3", fabric=lambda fabric=fabric: fabric)
        for fabric in fabrics or (None, None)
    ]
    return SimpleNamespace(host=host, gpus=lambda: gpus)


def test_what_a_host_is_like() -> None:
    hca = NcclSetting("NCCL_IB_HCA", "mlx5_0", "/etc/nccl.conf")
    debug = NcclSetting("NCCL_DEBUG", "INFO", "/etc/nccl.conf")
    assert description_of(node(["ACTIVE", "DOWN", "ACTIVE"], [debug, hca]), 2) == {
        "model": "NVIDIA H100 80GB HBM3",
        "rdma_ports": 3,
        "rdma_active": 2,
        "nvlink_domain": "",
        "settings": [hca],
    }
    assert description_of(node([], []), 0)["model"] == ""


TRAY = Fabric("completed", "Success", "", "", "4d0c", 2)


@pytest.mark.parametrize(
    ("fabrics", "domain"),
    [
        ((TRAY, TRAY), "4d0c clique 2"),
        ((TRAY, TRAY._replace(clique_id=3)), ""),
        ((TRAY, None), ""),
        ((TRAY, TRAY._replace(state="in progress")), ""),
        ((TRAY._replace(cluster_uuid="", clique_id=0),) * 2, ""),
    ],
    ids=["a tray", "two cliques", "one outside", "not joined", "a baseboard"],
)
def test_the_nvlink_domain_is_that_of_all_gpus(fabrics: tuple[Fabric, ...], domain: str) -> None:
    assert description_of(node([], [], *fabrics), 2)["nvlink_domain"] == domain


def test_by_name_and_by_route() -> None:
    assert local_address("lo", "") == ("lo", "127.0.0.1")
    assert local_address("", "127.0.0.9") == ("lo", "127.0.0.1")
    assert local_address("", "localhost") == ("lo", "127.0.0.1")


@pytest.mark.parametrize(
    ("interface", "toward", "reason"),
    [
        ("nosuch0", "127.0.0.1", "hwcheck_interface: nosuch0 has no IPv4 address here"),
        ("", "no-such-host.invalid", "no route to no-such-host.invalid .*: set hwcheck_interface"),
    ],
)
def test_what_leads_nowhere(interface: str, toward: str, reason: str) -> None:
    with pytest.raises(CouldNotMeasure, match=reason):
        local_address(interface, toward)
