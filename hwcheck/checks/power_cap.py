"""Every GPU may draw the power that it should."""

from __future__ import annotations

from typing import Iterator, Optional

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import AtLeast, AtMost, FromInventory, FromModel, like_most
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import NO_VGPU, of_boards
from hwcheck.node.node import Gpu, Node

ENFORCED = "NVML API Reference Guide, nvmlDeviceGetEnforcedPowerLimit"
DECLARED = FromInventory("power_limit_w")
DECLARED_SOURCE = "the inventory's hwcheck_power_limit_w, held to 1 % (limits are set in whole W)"


@check(
    metrics=[
        Metric(
            "power_limit_w",
            "W",
            "power limit that the driver enforces, all limiters taken together",
            (
                AtLeast(DECLARED_SOURCE, fail=0.99, of=DECLARED, confidence="inventory"),
                AtMost(DECLARED_SOURCE, fail=1.01, of=DECLARED, confidence="inventory"),
            ),
            required=True,
            setting=True,
        ),
        Metric(
            "power_limit_default_w",
            "W",
            "power limit that the board boots with",
            (
                like_most(
                    "NVML API Reference Guide, nvmlDeviceGetPowerManagementDefaultLimit: boards of "
                    "one model and PCI subsystem id boot with one limit; another VBIOS has another"
                ),
                AtLeast(
                    "hwcheck/judge/models: the limit that boards of this model have, less 5 %; "
                    "some are made for less, so this is to be looked at and no fault by itself",
                    warn=0.95,
                    of=FromModel("power_w", known_only=True),
                    confidence="derived",
                ),
            ),
            required=True,
            setting=True,
        ),
        Metric(
            "power_limit_percent",
            "%",
            "enforced limit as a share of the inventory's, or else of the board's default",
            (
                AtLeast(
                    "warn: %s, against nvmlDeviceGetPowerManagementDefaultLimit. fail: below the "
                    "target_power_min_ratio (0.75) that DCGM's targeted_power test demands by "
                    "default, so that test cannot pass" % ENFORCED,
                    warn=99.0,
                    fail=75.0,
                ),
            ),
            required=True,
            ratio=("power_limit_w", "power_limit_default_w"),
        ),
    ],
    remedy=Remedy(
        cause="a limit set by hand or by the management controller, a missing power cable, or a "
        "power supply that failed",
        fix="declare the limit as hwcheck_power_limit_w when it is meant; otherwise set the "
        "default again and look for a limit in the management controller",
        command="nvidia-smi -q -d POWER",
        role="gpu_settings",
    ),
    per_gpu=True,
    optional=NO_VGPU,
    group="power, clocks",
)
def power_cap(node: Node) -> Iterator[Sample]:
    """Compare each GPU's enforced power limit with the inventory or with the board's default.

    A capped GPU runs slower than its neighbors and, in a job that waits for the slowest, so does
    every other GPU. A limit lowered on purpose belongs into the inventory as
    ``hwcheck_power_limit_w``: it takes the place of the board's default, in both directions. A
    lower limit that nobody declared is a warning, and a failure when it takes more than a quarter.
    """
    declared = node.request.expect.get("power_limit_w")
    yield from of_boards(node, lambda gpu: _limits(gpu, declared))


def _limits(gpu: Gpu, declared: Optional[float]) -> Iterator[Sample]:
    enforced = gpu.power_limit_w()
    yield Sample("power_limit_w", enforced, "W", gpu.subject)
    default = gpu.power_limit_default_w()
    yield Sample("power_limit_default_w", default, "W", gpu.subject)
    percent = round(100.0 * enforced / (declared or default), 1)
    yield Sample("power_limit_percent", percent, "%", gpu.subject)
