from __future__ import annotations

from typing import Any

import pytest

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
