"""ZeRO-2: each rank has its share of gradients and optimizer."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """Every rank a shard."""
    return Degrees(shard=ranks)


def wrap(job: Any) -> Any:
    """The model in fully_shard."""
    from hwcheck.node.training.sharded import shard
    from hwcheck.node.training.steps import Replica

    module = shard(job, job.model(), reshard=False)
    return Replica(job, module, job.adamw(module))


STRATEGY = Strategy("zero2", "ZeRO-2", degrees, wrap, since=(2, 6), since_gloo=(2, 7))
