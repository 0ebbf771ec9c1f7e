"""Every GPU takes data from the host as fast as its PCIe link allows."""

from __future__ import annotations

from typing import Iterator

from hwcheck.checks.shared.pcie_copy import REMEDY, copies, metrics
from hwcheck.contract.check import check
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import NO_VGPU
from hwcheck.node.node import Node


@check(
    metrics=metrics("to_device_gbps", "from the host to the GPU", "host to GPU"),
    remedy=REMEDY,
    load=True,
    per_gpu=True,
    optional=NO_VGPU,
    group="PCIe",
)
def host_to_device(node: Node) -> Iterator[Sample]:
    """Hold the copy of pinned memory to each GPU against what its PCIe link can carry.

    Training reads its data over this way, and inference loads its model over it. The link as it is
    now is the measure, so a link that is too slow is found by its own check, and here only what
    keeps a good link from being used.
    """
    yield from copies(
        node, "to_device_gbps", lambda work: work.to_device_gbps, "from the host to the GPU"
    )
