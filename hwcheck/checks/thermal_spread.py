"""No GPU is much hotter than its neighbors at the same work."""

from __future__ import annotations

from statistics import median
from typing import Iterator

from hwcheck.checks.shared.load_summary import FigureOfKind, Loaded, among_peers
from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy, check
from hwcheck.contract.limits import AbovePeers, AtMost
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

CLOSE_C = 10
BUILT_IN = (
    "derived: the air that passes one GPU arrives warmer at the next, so some spread is built in; "
    "10 C above the middle is a quarter of the whole rise from 35 to 75 C"
)


@check(
    metrics=[
        Metric(
            "temperature_c",
            "C",
            "median core temperature in the steady part of the load",
            (
                AbovePeers(
                    "derived: the same board in the same slot at the same work; 10 C more than on "
                    "the other hosts is a quarter of the whole rise from 35 to 75 C",
                    margin=10,
                ),
            ),
            required=True,
        ),
        Metric(
            "temperature_over_peers_c",
            "C",
            "that over the median of the node's GPUs of its kind",
            (AtMost(BUILT_IN, warn=10, confidence="derived"),),
            of_some="the one or the other, by its heat",
        ),
        Metric(
            "hot_over_peers_c",
            "C",
            "the same, of a GPU that came within 10 C of its slowdown threshold",
            (
                AtMost(
                    BUILT_IN + ", and 20 C half of it, where hardly anything is left",
                    warn=10,
                    fail=20,
                    confidence="derived",
                ),
            ),
            of_some="the one or the other, by its heat",
        ),
    ],
    remedy=Remedy(
        cause="one slot with worse cooling: a fan, a blocked air path, a missing blank or baffle, "
        "a cold plate or its hose; the same slot on every host: the chassis or the airflow of the "
        "row",
        fix="compare the same slot of other hosts: hot there too, look at airflow and blanks of "
        "the chassis; here only, look at this board's fan, heat sink and mounting",
        command="nvidia-smi --query-gpu=index,pci.bus_id,temperature.gpu,fan.speed,power.draw "
        "--format=csv",
    ),
    load=True,
    per_gpu=True,
    optional="two GPUs of one kind",
    group="heat",
)
def thermal_spread(node: Node) -> Iterator[Sample]:
    """Compare the temperature of each GPU at work with the others of its node.

    The others have the same air, the same work and the same clocks, so a GPU far above them has
    something of its own, even where it is far from any threshold; near it, it is a failure. A slot
    that is hot on every host is found as well, since it is held against the other slots. A host
    that is warm as a whole is found by the same slots of the other hosts.
    """
    close = set()

    def of_gpu(loaded: Loaded) -> Iterator[Sample]:
        heat = median(loaded.steady("temperature_c"))
        yield Sample("temperature_c", round(heat, 1), "C", loaded.subject)
        if _is_close(loaded):
            close.add(loaded.subject)

    def compare(gpu_heat: FigureOfKind, middle: float) -> Sample:
        metric = "hot_over_peers_c" if gpu_heat.subject in close else "temperature_over_peers_c"
        return Sample(metric, round(gpu_heat.value - middle, 1), "C", gpu_heat.subject)

    yield from among_peers(node, of_gpu, "temperature_c", compare, with_itself=True)


def _is_close(loaded: Loaded) -> bool:
    try:
        return loaded.slowdown_margin_c() < CLOSE_C
    except CouldNotMeasure:
        return False  # the board gives no threshold, and temperature_under_load judges it
