"""nn.DataParallel: one process, which copies the model to every GPU in every step."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """Every rank a replica: the first one's process has the GPUs of all."""
    return Degrees(replicate=ranks)


def wrap(job: Any) -> Any:
    """The first rank's model on all GPUs; the other ranks have nothing to do."""
    from torch.nn import DataParallel

    from hwcheck.node.training.steps import Idle, Replica

    if job.rank:
        return Idle()
    module = job.model()
    micro_batch = job.order.micro_batch * job.order.world
    parallel = DataParallel(module, device_ids=list(job.order.devices))
    return Replica(job, parallel, job.adamw(module), micro_batch=micro_batch)


STRATEGY = Strategy(
    "dp",
    "nn.DataParallel",
    degrees,
    wrap,
    cuda_only="nn.DataParallel does nothing without CUDA devices",
    one_process=True,
)
