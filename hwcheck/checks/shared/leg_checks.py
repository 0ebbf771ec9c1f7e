"""What the checks of collectives share: metrics, remedy, and the samples of a leg."""

from __future__ import annotations

from typing import Callable, Iterator, Tuple, Union

from hwcheck.contract.check import (
    BY_RUN,
    WITHOUT_MIG,
    Check,
    Function,
    Metric,
    Remedy,
    Varies,
    check,
)
from hwcheck.contract.collective_spec import EVERY_NODE_LEGS
from hwcheck.contract.limits import Equal, Steady
from hwcheck.contract.wire import DRIVER_ANSWERS, Leg, Sample
from hwcheck.node.node import Node

BUSBW_SOURCE = "NVIDIA/nccl-tests, doc/PERFORMANCE.md"
NEEDED = [leg.name for leg in EVERY_NODE_LEGS]
"""The legs that every whole answer has; of one GPU there is the first only."""

WITH_BUSBW = Varies("the busbw of each size is compared", hosts=False, neighbors=False)

LEG_STATE = Metric(
    "leg_state",
    "",
    "done, hang (killed by its wall clock) or failed",
    (Equal("done", "a healthy node ends every leg; NVIDIA/nccl#631, NVIDIA/nccl#257"),),
)
DRIVER_ANSWERS_METRIC = Metric(
    "driver_answers",
    "",
    "whether the driver answers within a bound after the leg hung and was killed",
    (
        Equal(
            True,
            "a driver that hangs with a GPU hangs until a reboot; NVIDIA/nccl-tests#117",
            confidence="published",
        ),
    ),
)
WRONG_ELEMENTS = Metric(
    "wrong_elements",
    "elements",
    "elements that are not exactly what they must be, over all ranks and sizes",
    (Equal(0, "exact integers, tolerance 0, as nccl-tests' #wrong (README.md, -c)"),),
)
LARGEST_SIZE_BYTES = Metric(
    "largest_size_bytes",
    "bytes",
    "the largest size, which the figures belong to",
    varies=BY_RUN,
)
BUSBW_GBPS = Metric(
    "busbw_gbps",
    "GB/s",
    "bus bandwidth at the largest size; " + BUSBW_SOURCE,
    past=Steady(-1, ratio=True, scatter=0.005, least=0.03),
)
ALGBW_GBPS = Metric(
    "algbw_gbps",
    "GB/s",
    "size over time at the largest size; " + BUSBW_SOURCE,
    varies=WITH_BUSBW,
)
BUSBW_SPREAD = Metric(
    "busbw_spread",
    "share",
    "inter-quartile range over median of the largest size",
    varies=WITH_BUSBW,
)
PASS_SPREAD = Metric(
    "pass_spread",
    "share",
    "what the largest size's medians differ by, turn by turn",
    varies=WITH_BUSBW,
)

METRICS: Tuple[Metric, ...] = (
    LEG_STATE,
    DRIVER_ANSWERS_METRIC,
    WRONG_ELEMENTS,
    LARGEST_SIZE_BYTES,
    BUSBW_GBPS,
    ALGBW_GBPS,
    BUSBW_SPREAD,
    PASS_SPREAD,
)

REMEDY = Remedy(
    cause="GPUs that cannot reach each other: PCIe ACS or IOMMU redirecting peer traffic, a "
    "broken NVLink or NVSwitch fabric, a driver that grants peer access which does not work",
    fix="read which leg failed and its log: fails in default but not in p2p_off is peer "
    "access; fails in p2p_off but not in net is shared memory (/dev/shm); fails in all is "
    "the driver, the fabric or torch. Where driver_answers is false reboot the node first: "
    "nvidia-smi hangs there too, and no process on its GPUs can be killed",
    command="nvidia-smi topo -m; nvidia-smi topo -p2p r; lspci -vvv | grep ACSCtl",
)


def collective_check(optional: str = WITHOUT_MIG) -> Callable[[Function], Check]:
    """Register a function as the check of the collective of its name."""
    return check(
        metrics=METRICS,
        remedy=REMEDY,
        gpu=False,
        load=True,
        legs=NEEDED,
        optional=optional,
        group="collectives",
        stage="collectives",
    )


def timed(node: Node, collective: str) -> Iterator[Union[Sample, Leg]]:
    """Yield every leg of a collective, each followed by its samples."""
    for leg in node.legs(collective):
        yield leg
        yield from leg_samples(leg)


def leg_samples(leg: Leg) -> Iterator[Sample]:
    """Yield the samples of one leg. The judge derives them again: legs are the evidence.

    A leg that was not run, or did not use what it is to measure, has no state to judge; of one that
    did not start the node's other legs decide what it is.
    """
    subject = "leg " + leg.leg
    if leg.state not in ("not_run", "not_engaged", "not_started"):
        yield Sample("leg_state", leg.state, "", subject)
    if leg.driver:
        yield Sample("driver_answers", leg.driver == DRIVER_ANSWERS, "", subject)
    if not leg.sizes:
        return
    wrong = sum(size.all_wrong for size in leg.sizes)
    yield Sample("wrong_elements", wrong, "elements", subject)
    if leg.state != "done":
        return
    largest = max(leg.sizes, key=lambda size: size.size_bytes)
    yield Sample("largest_size_bytes", largest.size_bytes, "bytes", subject)
    yield Sample("busbw_gbps", largest.busbw_gbps, "GB/s", subject)
    yield Sample("algbw_gbps", largest.algbw_gbps, "GB/s", subject)
    yield Sample("busbw_spread", largest.spread, "share", subject)
    if largest.passes > 1:
        yield Sample("pass_spread", largest.pass_spread, "share", subject)
