"""PP, naive: the whole batch goes from stage to stage, one at work at a time."""

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

    return Pipeline(job, ScheduleGPipe, one_micro_batch=True)


# pytorch/pytorch#144702 brought the refusal, for 1F1B's sake, and #171462 took it from GPipe.
STRATEGY = Strategy(
    "pp_naive",
    "PP, naive",
    degrees,
    wrap,
    since=(2, 6),
    since_gloo=(2, 6),
    gap=((2, 7), (2, 10), "its GPipe wants a micro-batch for each stage"),
)
