"""No GPU's PCIe link has to repeat itself more than its neighbors'."""

from __future__ import annotations

from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.contract.limits import OFTEN, AtMost
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import Survey, middle
from hwcheck.node.node import Node

NORMAL_REPLAYS = 100
"""What a GPU of a healthy node gathers anyway: nvidia-smi -q of H100 nodes shows 40 to 120."""


@check(
    metrics=[
        Metric(
            "pcie_replays",
            "packets",
            "PCIe packets sent again since the GPU was reset",
            required=True,
            past=OFTEN,
        ),
        Metric(
            "pcie_replays_over_peers",
            "x",
            "replays over the median of the node's other GPUs, which is taken for 100 at least",
            (
                AtMost(
                    "derived: NVML API Reference Guide, nvmlDeviceGetPcieReplayCounter, counts "
                    "since the reset and not per time, so the node's other GPUs, of one age and "
                    "one work, are the measure; ten times theirs is no scatter",
                    warn=10,
                    confidence="derived",
                ),
            ),
            required=True,
        ),
    ],
    remedy=Remedy(
        cause="a riser, cable or slot with a bad contact, a link run faster than the board "
        "design allows, or electrical noise",
        fix="watch whether the count grows under load; reseat board, riser and cables; swap "
        "slots to see whether it follows the board or the slot",
        command="nvidia-smi --query-gpu=index,pci.bus_id,pcie.link.width.current "
        "--format=csv && nvidia-smi -q | grep -i replay",
    ),
    per_gpu=True,
    optional="counters of PCIe replays",
    group="PCIe",
)
def pcie_errors(node: Node) -> Iterator[Sample]:
    """Compare how often the PCIe link of each GPU had to send a packet again.

    A link with a bad contact loses bandwidth to repetition long before it drops lanes or loses
    the GPU. Some replays are normal and they add up with uptime, so no fixed count is a fault:
    a GPU is held against the others of its node.
    """
    replays = Survey(node, lambda gpu: gpu.pcie_replays())
    counts = {gpu.subject: count for gpu, count in replays.answers}
    for subject, count in counts.items():
        yield Sample("pcie_replays", count, "packets", subject)
        peers = [other for name, other in counts.items() if name != subject]
        usual = max(middle(peers) if peers else 0, NORMAL_REPLAYS)
        yield Sample("pcie_replays_over_peers", round(count / usual, 2), "x", subject)
    replays.conclude("no GPU of this node counts PCIe replays")
