"""A GPU with nothing to do draws little power."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import AtMost, Equal, FromSample, Steady
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import need_idle, where_supported
from hwcheck.node.node import Gpu, Node


@check(
    metrics=[
        Metric(
            "power_idle_w",
            "W",
            "power that the board draws with no load",
            (
                AtMost(
                    "derived from nvmlDeviceGetPowerUsage and "
                    "nvmlDeviceGetPowerManagementDefaultLimit (NVML API Reference Guide): no "
                    "vendor publishes idle power; in public nvidia-smi outputs of V100, A100, H100 "
                    "and GeForce boards it is 6 to 17 % of the default limit, so at 60 % something "
                    "runs or leaks",
                    warn=0.6,
                    of=FromSample("power_limit_default_w"),
                    confidence="derived",
                ),
            ),
            required=True,
            past=Steady(1, ratio=True, scatter=0.03, least=0.2),
        ),
        Metric(
            "power_told_as_nothing",
            "",
            "whether the board says that it draws 0 W",
            (
                Equal(
                    False,
                    source="derived: NVML answers only of a board that has power, and the lowest "
                    "in public nvidia-smi outputs are a few W, so a sensor that says 0 is broken, "
                    "and what keeps to the power limit by it is blind",
                    confidence="derived",
                    otherwise="warn",
                ),
            ),
        ),
        Metric(
            "power_limit_default_w",
            "W",
            "power limit that the board boots with",
            setting=True,
        ),
    ],
    remedy=Remedy(
        cause="work that NVML does not show, clocks that are locked high, or a board whose power "
        "stages leak",
        fix="look for locked clocks (nvidia-smi -rgc) and for work of containers and guests; reset "
        "the GPU, and have the board examined when it goes on",
        command="nvidia-smi --query-gpu=index,power.draw,pstate,clocks.sm,utilization.gpu "
        "--format=csv",
    ),
    optional="GPUs that tell their power",
    group="power, clocks",
)
def power_idle(node: Node) -> Iterator[Sample]:
    """Read what each idle GPU draws, for its neighbors and peers to be compared with.

    A board that draws three times what its neighbors draw does something that nobody asked for, or
    it is about to fail, and its heat and power are missing elsewhere. Only an idle GPU can be
    judged: one with a compute process or more than 5 % utilization is named as not measured.
    """
    yield from where_supported(node, _idle_power, "no GPU of this node tells its power")


def _idle_power(gpu: Gpu) -> Iterator[Sample]:
    power = gpu.power_w()
    if power is None:
        return
    yield Sample("power_told_as_nothing", power <= 0, "", gpu.subject)
    need_idle(gpu)
    yield Sample("power_idle_w", round(power, 1), "W", gpu.subject)
    yield Sample("power_limit_default_w", gpu.power_limit_default_w(), "W", gpu.subject)
