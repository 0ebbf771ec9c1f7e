from __future__ import annotations

from typing import Any

import pytest

from hwcheck.node.check import NotApplicable
from hwcheck.node.peers import need_peers
from tests.node.fakes import FakeHost

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
