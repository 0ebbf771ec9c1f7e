"""PP, 1F1B: one forward, one backward, so that few micro-batches are in flight."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """One pipeline."""
    return Degrees(pipeline=ranks)


def wrap(job: Any) -> Any:
    """Stages of the model under torch's Schedule1F1B."""
    from torch.distributed.pipelining import Schedule1F1B

    from hwcheck.node.training.steps import Pipeline

    return Pipeline(job, Schedule1F1B)


STRATEGY = Strategy("pp_1f1b", "PP, 1F1B", degrees, wrap, since=(2, 6), since_gloo=(2, 8))
