"""DP x PP: a pipeline over two hosts or halves of one, and replicas of it, by fully_shard."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy, host_groups


def degrees(ranks: int, hosts: int) -> Degrees:
    """A stage for each host, or else two; each rank of it has a replica."""
    pipeline = host_groups(ranks, hosts)
    return Degrees(pipeline=pipeline, replicate=ranks // pipeline)


def wrap(job: Any) -> Any:
    """Stages that are replicated, under torch's Schedule1F1B."""
    from torch.distributed.pipelining import Schedule1F1B

    from hwcheck.node.training.sharded import shard
    from hwcheck.node.training.steps import Pipeline

    return Pipeline(job, Schedule1F1B, lambda module: shard(job, module, reshard=False))


STRATEGY = Strategy("dp_pp", "DP x PP", degrees, wrap, since=(2, 6), since_gloo=(2, 8), least=4)
