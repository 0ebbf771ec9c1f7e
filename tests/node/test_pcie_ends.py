from __future__ import annotations

from typing import Any

import pytest

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.pcie_ends import newest, widest
from tests.node.fakes import FakeNode

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
    ({"cpu_vendor": "ARM", "ports": PORT}, 1, "8 now of 16: the way to the host is NVLink-C2C"),
    ({"cpu_vendor": "ARM"}, 1, "8 now of 16: the way to the host is NVLink-C2C"),
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
