"""3D: PP x FSDP x TP."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """Two stages, TP 2, and the rest shards."""
    return Degrees(pipeline=2, shard=ranks // 4, tensor=2)


def wrap(job: Any) -> Any:
    """Stages whose layers are split and whose state is sharded, under torch's Schedule1F1B."""
    from torch.distributed.pipelining import Schedule1F1B

    from hwcheck.node.training.sharded import shard
    from hwcheck.node.training.steps import Pipeline
    from hwcheck.node.training.tensor_parallel import split

    def parts(module: Any) -> Any:
        return shard(job, split(module, job.mesh()["tp"]), reshard=False)

    return Pipeline(job, Schedule1F1B, parts)


# 2.7 as tp_pp.
STRATEGY = Strategy("3d", "3D", degrees, wrap, since=(2, 7), since_gloo=(2, 8), least=8)
