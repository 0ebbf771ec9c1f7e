"""How the model's state is sharded by data: torch's ``fully_shard``, block by block."""

from __future__ import annotations

from typing import Any

from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard

from hwcheck.node.training.job import RankJob


def shard(job: RankJob, module: Any, *, reshard: bool, offload: bool = False) -> Any:
    """Shard over the mesh axis ``shard`` and replicate over ``replicate``.

    With ``reshard`` a block's weights are given back after its forward pass and gathered again for
    the backward pass; ``offload`` keeps weights, gradients and optimizer in the host's memory.
    """
    mesh = job.mesh()
    mesh = mesh["replicate", "shard"] if job.degrees.replicate > 1 else mesh["shard"]
    policy = CPUOffloadPolicy(pin_memory=job.device.cuda) if offload else OffloadPolicy()
    for block in module.blocks.values():
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard, offload_policy=policy)
    return fully_shard(module, mesh=mesh, reshard_after_forward=reshard, offload_policy=policy)
