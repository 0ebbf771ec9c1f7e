"""What a host is like, for the comparison with others, and the NCCL settings in force on it."""

from __future__ import annotations

from typing import Any, Dict

from hwcheck.node.check import Node
from hwcheck.node.collective.choose_legs import LOGGING

TEXT = 300
MOST = 100


def about(node: Node, gpus: int) -> Dict[str, Any]:
    """Return the GPUs' model, the RDMA ports, those that are active, and the NCCL settings."""
    ports = node.host.rdma_ports()
    models = sorted({gpu.name() for gpu in node.gpus()}) if gpus else []
    return {
        "model": ", ".join(models)[:TEXT],
        "rdma_ports": len(ports),
        "rdma_active": sum(port.state == "ACTIVE" for port in ports),
        "settings": [each for each in node.host.nccl_settings() if LOGGING not in each.name][:MOST],
    }
