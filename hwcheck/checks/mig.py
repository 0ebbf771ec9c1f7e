"""No GPU is between being whole and being split."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import Equal, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import where_supported
from hwcheck.node.node import Gpu, Node


@check(
    metrics=[
        Metric(
            "mig_enabled",
            "",
            "whether the GPU is split into instances",
            (
                like_most(
                    "NVIDIA Multi-Instance GPU User Guide: no peer access with MIG on, so a job "
                    "over several nodes cannot use a node that is split"
                ),
            ),
            required=True,
        ),
        Metric(
            "mig_change_pending",
            "",
            "whether that changes at the next reset",
            (
                Equal(
                    False,
                    source="NVML API Reference Guide, nvmlDeviceGetMigMode: the pending mode "
                    "takes effect at the next reset",
                    otherwise="warn",
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="MIG was switched while a process held the GPU, or where it takes a reset",
        fix="end the processes on the GPU and reset it, or reboot",
        command="nvidia-smi --query-gpu=index,mig.mode.current,mig.mode.pending --format=csv",
    ),
    per_gpu=True,
    optional="GPUs that can be split",
    group="GPUs",
    explains_silence=True,
)
def mig(node: Node) -> Iterator[Sample]:
    """Read whether MIG splits each GPU into instances, and whether a change waits for a reset.

    A split GPU has no peer access and no collectives over its whole, and NVML refuses several
    counters for it, so this explains what other checks could not measure. A change that waits
    surprises whoever resets the GPU next.
    """
    yield from where_supported(node, _mode, "no GPU of this node can be split (MIG)")


def _mode(gpu: Gpu) -> Iterator[Sample]:
    mode = gpu.mig_mode()
    if mode is None:
        return
    yield Sample("mig_enabled", mode.current, "", gpu.subject)
    yield Sample("mig_change_pending", mode.current != mode.pending, "", gpu.subject)
