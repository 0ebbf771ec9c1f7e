"""DDP over tensor-parallel modules: it runs and is wrong. A control: parity has to catch it."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """TP 2, and the rest replicas."""
    return Degrees(replicate=ranks // 2, tensor=2)


def wrap(job: Any) -> Any:
    """The gradients averaged over all ranks, as DDP over a split model does it.

    DDP knows nothing of the split: its buckets add the parts that ranks have of one layer, which
    are different weights. Where torch refuses such a model, others average by hand, as here.
    """
    from hwcheck.node.torch_runtime import dist
    from hwcheck.node.training.steps import Replica, averaging
    from hwcheck.node.training.tensor_parallel import split

    module = split(job.model(), job.mesh()["tp"])
    around = averaging(dist.group.WORLD)
    return Replica(job, module, job.adamw(module), around=lambda: around([module]))


STRATEGY = Strategy("ddp_over_tp", "DDP over TP", degrees, wrap, since=(2, 5), control=True)
