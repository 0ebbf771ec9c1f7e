"""The GPUs may not draw more than power supplies and cables deliver."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtMost, FromInventory
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import per_gpu
from hwcheck.node.node import Gpu, Node

CONNECTORS = "PCI Express Card Electromechanical Specification 5.0: slot 75 W, 2x3 connector 75 W, "
CONNECTORS += "2x4 150 W, 2x6 with 12 V up to 600 W, sustained (also in Intel's ATX 3.0 Power "
CONNECTORS += "Supply Design Guide, 336521, table 3-5)"


@check(
    metrics=[
        Metric(
            "power_limit_w",
            "W",
            "power limit that the driver enforces; may not exceed what the slot and the declared "
            "connectors supply together",
            (
                AtMost(
                    CONNECTORS,
                    fail=1.0,
                    of=FromInventory("gpu_power_connectors"),
                    confidence="published",
                ),
            ),
            required=True,
            setting=True,
        ),
        Metric(
            "power_planned_w",
            "W",
            "sum of the enforced limits and of hwcheck_host_power_w; only with hwcheck_psu_watts",
            (
                AtMost(
                    "the inventory's hwcheck_psu_watts: more than the supplies deliver",
                    fail=1.0,
                    of=FromInventory("psu_watts"),
                    confidence="inventory",
                ),
                AtMost(
                    "the inventory's hwcheck_power_budget_w, or hwcheck_psu_watts x "
                    "hwcheck_psu_derate",
                    warn=1.0,
                    of=FromInventory("power_budget_w"),
                    confidence="inventory",
                ),
            ),
        ),
    ],
    remedy=Remedy(
        cause="GPUs, limits or power supplies other than the node was planned with, or a power "
        "cable that feeds two connectors",
        fix="lower the power limits until the sum fits, or add supplies and cables; then declare "
        "what is there",
        command="nvidia-smi -q -d POWER",
    ),
    per_gpu=True,
    optional="a power supply or power connectors that the inventory declares",
    group="power, clocks",
    varies="goes by what the inventory declares",
)
def power_budget(node: Node) -> Iterator[Sample]:
    """Hold the power limits of all GPUs against what the inventory says of supplies and cables.

    A node whose supplies or cables cannot feed all GPUs at their limits runs well until the first
    job that loads them all; then it is throttled, loses a GPU or switches off. Supplies are rated
    for sustained output, so ``hwcheck_psu_derate`` is 1 unless declared; a circuit breaker that
    feeds them is not (80 % for loads of three hours or more, NEC 210.20(A)). Peaks of
    milliseconds lie above the limits and are for the supplies to bear.
    """
    expect = node.request.expect
    if "psu_watts" not in expect and "gpu_power_connectors" not in expect:
        raise NotApplicable("neither hwcheck_psu_watts nor hwcheck_gpu_power_connectors declared")
    planned_w = float(expect.get("host_power_w", 0.0))
    for sample in per_gpu(node, _power_limit):
        yield sample
        planned_w += float(sample.value)
    if "psu_watts" in expect:
        yield Sample("power_planned_w", round(planned_w, 1), "W")


def _power_limit(gpu: Gpu) -> Iterator[Sample]:
    yield Sample("power_limit_w", gpu.power_limit_w(), "W", gpu.subject)
