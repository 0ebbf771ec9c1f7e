from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hwcheck.node.host.facts import Setting
from hwcheck.node.multi_host.about import about


def node(states: list[str], settings: list[Setting]) -> Any:
    ports = [SimpleNamespace(state=state) for state in states]
    host = SimpleNamespace(rdma_ports=lambda: ports, nccl_settings=lambda: settings)
    gpus = [SimpleNamespace(name=lambda: "NVIDIA H100 80GB HBM3")] * 2
    return SimpleNamespace(host=host, gpus=lambda: gpus)


def test_what_a_host_is_like() -> None:
    hca = Setting("NCCL_IB_HCA", "mlx5_0", "/etc/nccl.conf")
    debug = Setting("NCCL_DEBUG", "INFO", "/etc/nccl.conf")
    assert about(node(["ACTIVE", "DOWN", "ACTIVE"], [debug, hca]), 2) == {
        "model": "NVIDIA H100 80GB HBM3",
        "rdma_ports": 3,
        "rdma_active": 2,
        "settings": [hca],
    }
    assert about(node([], []), 0)["model"] == ""
