"""DP x TP: tensor groups within a host, replicas of them across, by fully_shard with one shard.

Never by DDP: it would average parts of different layers (``ddp_over_tp``).
"""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """TP over the ranks of a host and a replica for each host; or else TP 2."""
    tensor = ranks // hosts if 1 < hosts < ranks else 2
    return Degrees(replicate=ranks // tensor, tensor=tensor)


def wrap(job: Any) -> Any:
    """The model, its layers split, then replicated."""
    from hwcheck.node.training.sharded import shard
    from hwcheck.node.training.steps import Replica
    from hwcheck.node.training.tensor_parallel import split

    module = shard(job, split(job.model(), job.mesh()["tp"]), reshard=False)
    return Replica(job, module, job.adamw(module))


STRATEGY = Strategy("dp_tp", "DP x TP", degrees, wrap, since=(2, 6), since_gloo=(2, 8), least=4)
