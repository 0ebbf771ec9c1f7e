"""HSDP: ZeRO-3 within a host, DDP of the shards across hosts."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy, host_groups


def degrees(ranks: int, hosts: int) -> Degrees:
    """A shard for each rank of a host and a replica for each host; or else two replicas."""
    replicas = host_groups(ranks, hosts)
    return Degrees(replicate=replicas, shard=ranks // replicas)


def wrap(job: Any) -> Any:
    """The model in fully_shard on a mesh with two axes."""
    from hwcheck.node.training.sharded import shard
    from hwcheck.node.training.steps import Replica

    module = shard(job, job.model(), reshard=True)
    return Replica(job, module, job.adamw(module))


STRATEGY = Strategy("hsdp", "HSDP", degrees, wrap, since=(2, 6), since_gloo=(2, 8), least=4)
