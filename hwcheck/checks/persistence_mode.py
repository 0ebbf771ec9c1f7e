"""The driver keeps every GPU initialized when nobody uses it."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import AtMost, Equal
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import per_gpu
from hwcheck.node.node import Gpu, Node


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
        Metric(
            "nvml_opening_s",
            "s",
            "how long NVML took to open all GPUs",
            (
                AtMost(
                    "derived from NVIDIA Driver Persistence, and from Azure/aks-gpu pull request "
                    "105: with several GPUs nvidia-smi took 30 s without persistence mode, 2 s "
                    "with it",
                    warn=5,
                    confidence="derived",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="nvidia-persistenced is not running, or was started with --no-persistence-mode",
        fix="enable and start the nvidia-persistenced service",
        command="nvidia-smi --query-gpu=index,persistence_mode --format=csv && "
        "systemctl status nvidia-persistenced",
        role="nvidia_driver",
    ),
    per_gpu=True,
    group="power, clocks",
)
def persistence_mode(node: Node) -> Iterator[Sample]:
    """Read whether persistence is on for each GPU, and how long it took to open them all.

    Without it the driver unloads a GPU's state when its last client ends and loads it again for
    the next one: every job starts seconds later, and a power limit that was set is forgotten. Who
    asks NVML waits as long, and tools with a time limit take the driver for hung.
    """
    opening_s = node.nvml_opening_s()
    if opening_s is not None:
        yield Sample("nvml_opening_s", round(opening_s, 1), "s")
    yield from per_gpu(node, _mode)


def _mode(gpu: Gpu) -> Iterator[Sample]:
    yield Sample("persistence_mode", gpu.persistence_mode(), subject=gpu.subject)
