"""The driver keeps every GPU initialized when nobody uses it."""

from __future__ import annotations

from typing import Iterator

from hwcheck.node.check import Gpu, Metric, Node, Remedy, check
from hwcheck.node.gpus import per_gpu
from hwcheck.node.limits import Equal
from hwcheck.node.wire import Sample


@check(
    metrics=[
        Metric(
            "persistence_mode",
            "",
            "whether the driver keeps the GPU's state with no client",
            (
                Equal(
                    True,
                    source="NVIDIA Driver Persistence, "
                    "https://docs.nvidia.com/deploy/driver-persistence/",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="nvidia-persistenced is not running, or was started with --no-persistence-mode",
        fix="enable and start the nvidia-persistenced service",
        command="nvidia-smi --query-gpu=index,persistence_mode --format=csv && "
        "systemctl status nvidia-persistenced",
    ),
    per_gpu=True,
)
def persistence_mode(node: Node) -> Iterator[Sample]:
    """Read whether persistence is on for each GPU.

    Without it the driver unloads a GPU's state when its last client ends and loads it again for
    the next one: every job starts seconds later, and a power limit that was set is forgotten.
    """
    yield from per_gpu(node, _mode)


def _mode(gpu: Gpu) -> Iterator[Sample]:
    yield Sample("persistence_mode", gpu.persistence_mode(), subject=gpu.subject)
