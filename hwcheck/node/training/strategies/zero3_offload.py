"""ZeRO-3 with CPU offload: as zero3, with the state in the host's memory."""

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

    module = shard(job, job.model(), reshard=True, offload=True)
    return Replica(job, module, job.adamw(module))


STRATEGY = Strategy(
    "zero3_offload", "ZeRO-3, CPU offload", degrees, wrap, since=(2, 6), since_gloo=(2, 7)
)
