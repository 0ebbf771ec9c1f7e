"""ZeRO-1 with 3D: PP x DP x TP, and each replica has its share of the optimizer's state.

Gradients are averaged in one piece after the backward pass: nothing hides it.
"""

from __future__ import annotations

from typing import Any, List

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """Two stages, TP 2, and the rest replicas."""
    return Degrees(pipeline=2, replicate=ranks // 4, tensor=2)


def wrap(job: Any) -> Any:
    """Stages whose layers are split, an optimizer of the parts that this rank has of them."""
    from torch.distributed.pipelining import Schedule1F1B

    from hwcheck.node.training.local_zero import LocalZero
    from hwcheck.node.training.steps import Pipeline, averaging
    from hwcheck.node.training.tensor_parallel import split

    replicas = job.mesh()["replicate"].get_group()

    def optimizer(modules: List[Any]) -> Any:
        return LocalZero(modules, replicas)

    return Pipeline(
        job,
        Schedule1F1B,
        lambda module: split(module, job.mesh()["tp"]),
        optimizer,
        averaging(replicas),
    )


STRATEGY = Strategy(
    "zero1_3d", "ZeRO-1 with 3D", degrees, wrap, since=(2, 7), since_gloo=(2, 8), least=8
)
