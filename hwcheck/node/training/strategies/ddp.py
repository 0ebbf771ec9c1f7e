"""DistributedDataParallel: a replica on each rank, gradients averaged during the backward pass."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """Every rank a replica."""
    return Degrees(replicate=ranks)


def wrap(job: Any) -> Any:
    """The model in DDP, with its usual buckets."""
    from torch.nn.parallel import DistributedDataParallel

    from hwcheck.node.training.steps import Replica

    module = DistributedDataParallel(job.model(), device_ids=job.device.ids)
    return Replica(job, module, job.adamw(module), pause=module.no_sync)


STRATEGY = Strategy("ddp", "DDP", degrees, wrap)
