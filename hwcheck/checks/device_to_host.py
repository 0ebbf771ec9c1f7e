"""Every GPU gives data to the host as fast as its PCIe link allows."""

from __future__ import annotations

from typing import Iterator

from hwcheck.checks.shared.pcie_copy import REMEDY, copies, metrics
from hwcheck.contract.check import check
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import NO_VGPU
from hwcheck.node.node import Node


@check(
    metrics=metrics("from_device_gbps", "from the GPU to the host", "GPU to host"),
    remedy=REMEDY,
    load=True,
    per_gpu=True,
    optional=NO_VGPU,
    group="PCIe",
)
def device_to_host(node: Node) -> Iterator[Sample]:
    """Hold the copy from each GPU to pinned memory against what its PCIe link can carry.

    Checkpoints and offloaded optimizer states go this way. It is often the slower one, where an
    IOMMU or a far memory node stands in it. The link as it is now is the measure, as in
    ``host_to_device``.
    """
    yield from copies(
        node, "from_device_gbps", lambda work: work.from_device_gbps, "from the GPU to the host"
    )
