"""One GPU: what every other row is held against."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """One rank."""
    return Degrees()


def wrap(job: Any) -> Any:
    """The model as it is."""
    from hwcheck.node.training.steps import Replica

    module = job.model()
    return Replica(job, module, job.adamw(module))


STRATEGY = Strategy("single", "one GPU", degrees, wrap, least=1)
