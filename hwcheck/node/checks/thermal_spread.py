"""No GPU is much hotter than its neighbors at the same work."""

from __future__ import annotations

from statistics import median
from typing import Iterator

from hwcheck.limits import AtMost, FromSlot
from hwcheck.node.check import Metric, Node, Remedy, check
from hwcheck.node.load.summary import Loaded, OfKind, among_peers
from hwcheck.wire import Sample


@check(
    metrics=[
        Metric(
            "temperature_c",
            "C",
            "median core temperature in the steady part of the load",
            (
                AtMost(
                    "derived: the same board in the same slot at the same work; 10 C more than on "
                    "the other hosts is a quarter of the whole rise from 35 to 75 C",
                    warn=1.0,
                    of=FromSlot(10),
                    confidence="derived",
                ),
            ),
            required=True,
        ),
        Metric(
            "temperature_over_peers_c",
            "C",
            "that over the median of the node's other GPUs of its kind",
            (
                AtMost(
                    "derived: the air that passes one GPU arrives warmer at the next, so some "
                    "spread is built in; 10 C above the middle is a quarter of the whole rise from "
                    "35 to 75 C, 20 C half of it",
                    warn=10,
                    fail=20,
                    confidence="derived",
                ),
            ),
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
)
def thermal_spread(node: Node) -> Iterator[Sample]:
    """Compare the temperature of each GPU at work with the others of its node.

    The others have the same air, the same work and the same clocks, so a GPU far above them has
    something of its own, even where it is far from any threshold. A slot that is hot on every host
    is found as well, since it is held against the other slots. A host that is warm as a whole is
    found by the same slots of the other hosts.
    """
    yield from among_peers(node, _of_gpu, "temperature_c", _compare)


def _of_gpu(loaded: Loaded) -> Iterator[Sample]:
    heat = median(loaded.steady("temperature_c"))
    yield Sample("temperature_c", round(heat, 1), "C", loaded.subject)


def _compare(own: OfKind, of_peers: float) -> Sample:
    over = round(own.value - of_peers, 1)
    return Sample("temperature_over_peers_c", over, "C", own.subject)
