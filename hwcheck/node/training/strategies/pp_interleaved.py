"""PP, interleaved 1F1B: as 1F1B, each rank with two stages, which halves the bubble."""

from __future__ import annotations

from typing import Any

from hwcheck.node.training.strategy import Degrees, Strategy


def degrees(ranks: int, hosts: int) -> Degrees:
    """One pipeline."""
    return Degrees(pipeline=ranks)


def wrap(job: Any) -> Any:
    """Stages of the model under torch's ScheduleInterleaved1F1B."""
    from torch.distributed.pipelining import ScheduleInterleaved1F1B

    from hwcheck.node.training.steps import Pipeline

    return Pipeline(job, ScheduleInterleaved1F1B, stages=STRATEGY.stages)


STRATEGY = Strategy(
    "pp_interleaved",
    "PP, interleaved 1F1B",
    degrees,
    wrap,
    since=(2, 6),
    since_gloo=(2, 8),
    stages=2,
)
