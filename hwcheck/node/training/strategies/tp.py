"""TP: every layer is split by its width."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """One tensor group."""
    return Degrees(tensor=ranks)


def wrap(job: Any) -> Any:
    """The model, its layers split."""
    from hwcheck.node.training.steps import Replica
    from hwcheck.node.training.tensor_parallel import split

    module = split(job.model(), job.mesh()["tp"], by_sequence=False)
    return Replica(job, module, job.adamw(module))


STRATEGY = Strategy("tp", "TP", degrees, wrap, since=(2, 5))
