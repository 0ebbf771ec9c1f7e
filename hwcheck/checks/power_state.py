"""A GPU at work runs in a fast performance state."""

from __future__ import annotations

from typing import Iterator, Optional, Tuple

from hwcheck.contract.check import BY_USE, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtMost
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import Survey, mig_is_on
from hwcheck.node.node import Gpu, Node

AT_WORK_PERCENT = 50
"""Utilization from which a GPU is taken to be at work."""


@check(
    metrics=[
        Metric(
            "performance_state",
            "",
            "performance state now, 0 is the fastest; idle GPUs vary",
            required=True,
            varies=BY_USE,
        ),
        Metric(
            "performance_state_at_work",
            "",
            "performance state of a GPU whose utilization is 50 % or more",
            (
                AtMost(
                    "derived from NVML API Reference Guide, nvmlPstates_t (P0 maximum, P15 "
                    "minimum performance): CUDA runs in P0, on GeForce boards in P2; slower "
                    "states have lower memory clocks",
                    warn=2,
                    confidence="derived",
                ),
            ),
            required=True,
            of_some="goes by its work",
            at_work=True,
        ),
    ],
    remedy=Remedy(
        cause="clocks locked low, a power limit far too low, a power brake, or a GPU that did not "
        "come back from a low power state",
        fix="reset locked clocks (nvidia-smi -rgc -rmc), look at what holds the clocks down, then "
        "reset the GPU",
        command="nvidia-smi --query-gpu=index,pstate,utilization.gpu,clocks.sm,clocks.mem "
        "--format=csv",
    ),
    optional="GPUs at work",
    group="power, clocks",
    varies="goes by who is at work",
)
def power_state(node: Node) -> Iterator[Sample]:
    """Read the performance state of each GPU, and judge it where the GPU is at work.

    A GPU that computes in a slow state has a fraction of its memory bandwidth and holds up every
    other GPU of its job. An idle GPU may be in any state, from P0 on data center boards to P8 on
    others, so its state is recorded and says nothing.
    """
    states = Survey(node, _state)
    for gpu, (state, at_work) in states.answers:
        yield Sample("performance_state", state, "", gpu.subject)
        if at_work:
            yield Sample("performance_state_at_work", state, "", gpu.subject)
    states.conclude("no GPU of this node tells its performance state")
    if not any(at_work for _, (_, at_work) in states.answers):
        raise NotApplicable("no GPU is at work: at idle a performance state says nothing")


def _state(gpu: Gpu) -> Optional[Tuple[int, bool]]:
    state = gpu.performance_state()
    if state is None:
        return None
    # With MIG on there is no utilization of the whole GPU.
    at_work = not mig_is_on(gpu) and gpu.utilization_percent() >= AT_WORK_PERCENT
    return state, at_work
