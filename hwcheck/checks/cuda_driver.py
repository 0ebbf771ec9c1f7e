"""The driver runs the CUDA version that the cluster is meant to run."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import Equal, FromInventory, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node


@check(
    metrics=[
        Metric(
            "cuda_driver_version",
            "",
            "newest CUDA version that the loaded driver runs",
            (
                Equal(
                    FromInventory("cuda_driver_version"),
                    source="the inventory's hwcheck_cuda_driver_version",
                    confidence="inventory",
                ),
                like_most(
                    "CUDA compatibility guide: what a container may be built for depends on it, "
                    "so a job that starts here must start on the other nodes"
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="another driver than the cluster's, or a CUDA compatibility package in the library "
        "path that stands in for the driver's own",
        fix="install the driver that the cluster runs and reboot; take compatibility packages out "
        "of the library path where they are not meant",
        command="nvidia-smi | grep 'CUDA Version'; ldconfig -p | grep libcuda",
        role="nvidia_driver",
    ),
    group="software",
    stage="inventory",
)
def cuda_driver(node: Node) -> Iterator[Sample]:
    """Read which CUDA version the driver runs at most.

    A framework built for a newer CUDA than the driver knows does not start, and one node with
    another driver makes a job fail wherever the scheduler puts it there. It is held against the
    inventory's ``hwcheck_cuda_driver_version``, and recorded for comparison over the nodes.
    """
    yield Sample("cuda_driver_version", node.cuda_driver_version())
