"""The GPUs may not draw more than power supplies and cables deliver."""

from __future__ import annotations

from typing import Iterator, Optional

from hwcheck.limits import AtMost, FromInventory, FromSample
from hwcheck.node.check import Gpu, Metric, Node, NotApplicable, Remedy, check
from hwcheck.node.connectors import SOURCE, supply_w
from hwcheck.node.per_gpu import per_gpu
from hwcheck.wire import Sample


@check(
    metrics=[
        Metric("power_limit_w", "W", "power limit that the driver enforces"),
        Metric(
            "connector_supply_w",
            "W",
            "what the slot and the connectors in hwcheck_gpu_power_connectors supply together",
        ),
        Metric(
            "connector_load_percent",
            "%",
            "enforced limit as a share of what slot and connectors supply; only with "
            "hwcheck_gpu_power_connectors",
            (AtMost(SOURCE, fail=100.0, confidence="published"),),
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
                    "the inventory's hwcheck_psu_watts x hwcheck_psu_derate",
                    warn=1.0,
                    of=FromSample("power_budget_w"),
                    confidence="inventory",
                ),
            ),
        ),
        Metric("power_budget_w", "W", "hwcheck_psu_watts x hwcheck_psu_derate"),
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
    connectors = expect.get("gpu_power_connectors")
    if connectors is None and "psu_watts" not in expect:
        raise NotApplicable("neither hwcheck_psu_watts nor hwcheck_gpu_power_connectors declared")
    supply = None if connectors is None else supply_w(connectors)
    limits_w = []
    for sample in per_gpu(node, lambda gpu: _of_gpu(gpu, supply)):
        yield sample
        if sample.metric == "power_limit_w":
            limits_w.append(float(sample.value))
    if "psu_watts" in expect:
        planned_w = sum(limits_w) + expect.get("host_power_w", 0.0)
        yield Sample("power_planned_w", round(planned_w, 1), "W")
        budget_w = expect["psu_watts"] * expect.get("psu_derate", 1.0)
        yield Sample("power_budget_w", round(budget_w, 1), "W")


def _of_gpu(gpu: Gpu, supply: Optional[float]) -> Iterator[Sample]:
    limit_w = gpu.power_limit_w()
    yield Sample("power_limit_w", limit_w, "W", gpu.subject)
    if supply is not None:
        yield Sample("connector_supply_w", supply, "W", gpu.subject)
        load = round(100.0 * limit_w / supply, 1)
        yield Sample("connector_load_percent", load, "%", gpu.subject)
