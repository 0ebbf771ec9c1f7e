"""TP x PP: stages, each split by layer width."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy, host_groups


def degrees(ranks: int, hosts: int) -> Degrees:
    """A stage for each host, or else two, split over the ranks of it."""
    pipeline = host_groups(ranks, hosts)
    return Degrees(pipeline=pipeline, tensor=ranks // pipeline)


def wrap(job: Any) -> Any:
    """Stages whose layers are split, under torch's Schedule1F1B."""
    from torch.distributed.pipelining import Schedule1F1B

    from hwcheck.node.training.steps import Pipeline
    from hwcheck.node.training.tensor_parallel import split

    return Pipeline(job, Schedule1F1B, lambda module: split(module, job.mesh()["tp"]))


# Before pytorch/pytorch#142237 no stage may return a view, as one whose layers are split does.
STRATEGY = Strategy("tp_pp", "TP x PP", degrees, wrap, since=(2, 7), since_gloo=(2, 8), least=4)
