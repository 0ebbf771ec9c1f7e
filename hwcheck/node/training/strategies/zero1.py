"""ZeRO-1: DDP, and each rank has the optimizer's state of its share of the parameters."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """Every rank a replica."""
    return Degrees(replicate=ranks)


def wrap(job: Any) -> Any:
    """The model in DDP, its optimizer in ZeroRedundancyOptimizer."""
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel

    from hwcheck.node.torch_runtime import torch
    from hwcheck.node.training.job import LEARNING_RATE
    from hwcheck.node.training.steps import Replica

    module = DistributedDataParallel(job.model(), device_ids=job.device.ids)
    optimizer = ZeroRedundancyOptimizer(
        module.parameters(), optimizer_class=torch.optim.AdamW, lr=LEARNING_RATE
    )
    return Replica(job, module, optimizer, pause=module.no_sync)


STRATEGY = Strategy("zero1", "ZeRO-1", degrees, wrap)
