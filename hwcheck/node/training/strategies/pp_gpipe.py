"""PP, GPipe: all micro-batches forward, then all backward."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """One pipeline."""
    return Degrees(pipeline=ranks)


def wrap(job: Any) -> Any:
    """Stages of the model under torch's ScheduleGPipe."""
    from torch.distributed.pipelining import ScheduleGPipe

    from hwcheck.node.training.steps import Pipeline

    return Pipeline(job, ScheduleGPipe)


STRATEGY = Strategy("pp_gpipe", "PP, GPipe", degrees, wrap, since=(2, 6), since_gloo=(2, 6))
