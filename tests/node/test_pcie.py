from __future__ import annotations

from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure, NotApplicable
from hwcheck.node.pcie import Place, need_peers, newest, pci_path, place_of, widest
from hwcheck.testing.fake_node import FakeHost, FakeNode

SWITCH = ("0000:16:00.0", "0000:15:01.0")
"""Upstream port of a switch, and the root port above it."""


def place(address: str, *bridges: str, numa: int | None = 0) -> Place:
    return Place(address, bridges, numa)


ONE = place("0000:18:00.0", "0000:17:00.0", *SWITCH)


@pytest.mark.parametrize(
    ("other", "path"),
    [
        (place("0000:18:00.1", "0000:17:00.0", *SWITCH), "PIX"),  # another port of the card
        (place("0000:19:00.0", "0000:17:01.0", *SWITCH), "PIX"),
        # Behind a switch that is behind the same one.
        (place("0000:30:00.0", "0000:2f:00.0", "0000:2e:00.0", "0000:17:02.0", *SWITCH), "PXB"),
        (place("0000:41:00.0", "0000:15:02.0"), "PHB"),
        (place("0000:15:00.1"), "PHB"),  # a device of the root bus itself
        (place("0000:41:00.0", "0000:40:01.0"), "NODE"),
        (place("0001:41:00.0", "0001:15:01.0"), "SYS"),  # another domain
        (place("0000:81:00.0", "0000:80:01.0", numa=1), "SYS"),
        (place("0000:81:00.0", "0000:80:01.0", numa=None), "SYS"),
    ],
)
def test_the_way_between_two_devices(other: Place, path: str) -> None:
    assert pci_path(ONE, other) == path
    assert pci_path(other, ONE) == path


def test_two_unknown_numa_nodes_are_taken_for_one() -> None:
    here = place("0000:18:00.0", "0000:17:00.0", numa=None)
    there = place("0000:41:00.0", "0000:40:00.0", numa=None)
    assert pci_path(here, there) == "NODE"


def test_where_the_kernel_shows_a_device() -> None:
    says: dict[str, Any] = {
        "bridges": {"0000:18:00.0": ["0000:17:00.0"]},
        "numa_node_of": {"0000:18:00.0": 1},
    }
    assert place_of(FakeHost(says), "0000:18:00.0") == place("0000:18:00.0", "0000:17:00.0", numa=1)


ADDRESS = "0000:18:00.0"


@pytest.mark.parametrize(
    ("port", "lanes", "generation"),
    [
        ({"width_max": 16, "generation_max": 5}, 16, 5),
        ({"width_max": 8, "generation_max": 4}, 8, 4),
        ({"width_max": 32, "generation_max": 6}, 16, 5),
        (None, 16, 5),
    ],
)
def test_the_weaker_end_counts(port: dict[str, int] | None, lanes: int, generation: int) -> None:
    gpu = {"pci_address": ADDRESS, "pcie_link_width_max": 16, "pcie_link_generation_max": 5}
    says: dict[str, Any] = {"gpus": [gpu]}
    if port:
        says["ports"] = {ADDRESS: port}
    node = FakeNode(says)
    assert widest(node.gpus()[0], node.host) == lanes
    assert newest(node.gpus()[0], node.host) == generation


GPU = {"pci_address": ADDRESS, "pcie_link_width_max": 16, "pcie_link_generation_max": 4}
PORT = {ADDRESS: {"width_max": 16, "generation_max": 4}}
NO_EVIDENCE = [
    ({"hypervisor": "amazon"}, None, "8 now of 16: the virtual machine does not show the slot"),
    ({"cpu_vendor": "ARM"}, None, ""),
    ({"ports": PORT}, 1, ""),
    ({}, None, ""),
    ({"hypervisor": "amazon", "ports": PORT}, None, ""),
]


@pytest.mark.parametrize(("says", "numa_id", "why"), NO_EVIDENCE)
def test_few_lanes_are_no_evidence_everywhere(
    says: dict[str, Any], numa_id: int | None, why: str
) -> None:
    node = FakeNode({**says, "gpus": [{**GPU, "numa_id": numa_id}]})
    gpu = node.gpus()[0]
    assert widest(gpu, node.host, 16) == 16
    assert newest(gpu, node.host) == 4
    if not why:
        assert widest(gpu, node.host, 8) == 16
        return
    with pytest.raises(CouldNotMeasure, match=f"gpu0: PCIe lanes: {why}"):
        widest(gpu, node.host, 8)
    with pytest.raises(CouldNotMeasure, match="gpu0: PCIe generation: 3 now of 4"):
        newest(gpu, node.host, 3)


TWO = {"pci_gpus": ["0000:18:00.0", "0000:2a:00.0"]}


@pytest.mark.parametrize(
    "says",
    [
        TWO,
        {**TWO, "cpu_vendor": "AuthenticAMD"},
        {"pci_gpus": ["0000:18:00.0"], "rdma_ports": [{"name": "mlx5_0/1"}]},
    ],
)
def test_traffic_between_devices(says: dict[str, Any]) -> None:
    need_peers(FakeHost(says))
    with pytest.raises(NotApplicable):  # the same node as a guest
        need_peers(FakeHost({**says, "hypervisor": "kvm"}))


@pytest.mark.parametrize(
    ("says", "reason"),
    [
        ({**TWO, "hypervisor": "kvm"}, "virtual machine"),
        ({**TWO, "cpu_vendor": "ARM"}, "x86"),
        ({**TWO, "cpu_vendor": ""}, "x86"),
        ({"pci_gpus": ["0000:18:00.0"]}, "one GPU"),
    ],
)
def test_none(says: dict[str, Any], reason: str) -> None:
    with pytest.raises(NotApplicable, match=reason):
        need_peers(FakeHost(says))
