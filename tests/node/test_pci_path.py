from __future__ import annotations

from typing import Any

import pytest

from hwcheck.node.pci_path import Place, pci_path, place_of
from tests.node.fakes import FakeHost

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
