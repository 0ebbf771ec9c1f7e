"""Every GPU's PCIe link runs as fast and as wide as both its ends can while it works."""

from __future__ import annotations

from statistics import median
from typing import Iterator, List

from hwcheck.checks.shared.load_summary import Loaded, Points, per_loaded_gpu
from hwcheck.contract.check import CouldNotMeasure, Metric, NotApplicable, Remedy, check
from hwcheck.contract.limits import AtLeast, FromSample
from hwcheck.contract.wire import Sample
from hwcheck.node.gpus import is_vgpu
from hwcheck.node.node import Node, NodeHost
from hwcheck.node.pcie import has_c2c, newest, widest

CAN = (
    "NVML API Reference Guide, nvmlDeviceGetMaxPcieLink%s (possible with this device and system), "
    "and the upstream port's max_link_%s in sysfs; power saving lowers the generation at idle only"
)


@check(
    metrics=[
        Metric(
            "pcie_generation",
            "",
            "PCIe generation under load, median",
            (
                AtLeast(
                    CAN % ("Generation", "speed"), fail=1.0, of=FromSample("pcie_generation_max")
                ),
            ),
            required=True,
        ),
        Metric(
            "pcie_generation_max",
            "",
            "PCIe generation that both ends of the link reach",
            required=True,
        ),
        Metric(
            "pcie_width",
            "lanes",
            "fewest PCIe lanes under load and in collectives, while the GPU is in use",
            (AtLeast(CAN % ("Width", "width"), fail=1.0, of=FromSample("pcie_width_max")),),
            required=True,
        ),
        Metric(
            "pcie_width_max",
            "lanes",
            "lanes that both ends of the link have",
            required=True,
            setting=True,
        ),
    ],
    remedy=Remedy(
        cause="a board, riser or cable with a bad contact, on which the link falls back to a lower "
        "speed or to fewer lanes, or a speed that firmware limits",
        fix="look for a limit of the slot's speed in the firmware's settings; power off, reseat "
        "board, riser and cables; swap slots to see whether it follows the board or the slot",
        command="sudo lspci -vv -d 10de: | grep -E 'LnkCap:|LnkSta:|LnkCtl2:'",
    ),
    load=True,
    per_gpu=True,
    optional="GPUs that reach their host over PCIe, without MIG",
    group="PCIe",
)
def pcie_link_under_load(node: Node) -> Iterator[Sample]:
    """Compare speed and width of each GPU's PCIe link at work with what both ends support.

    At idle the link saves power, so its speed says nothing then, and a link that trained down to
    an older generation halves the bandwidth without any error. Heat and vibration of the load also
    bring out contacts that hold at idle. Lanes count while the GPU is in use and where two readings
    in a row agree: a link that wakes may show few for a moment.
    """
    over_pcie = False
    for sample in per_loaded_gpu(node, lambda loaded: _of_gpu(loaded, node.host)):
        over_pcie = True
        yield sample
    if not over_pcie:
        raise NotApplicable("no GPU depends on a PCIe link: vGPUs, or GPUs on NVLink-C2C")


def _of_gpu(loaded: Loaded, host: NodeHost) -> Iterator[Sample]:
    subject = loaded.subject
    if is_vgpu(loaded.gpu) or has_c2c(loaded.gpu, host):
        return
    generation = int(median(loaded.under_load("pcie_generation")))
    yield Sample("pcie_generation", generation, "", subject)
    reached = newest(loaded.gpu, host, generation)
    yield Sample("pcie_generation_max", reached, "", subject)
    width = _lowest(loaded)
    yield Sample("pcie_width", width, "lanes", subject)
    yield Sample("pcie_width_max", widest(loaded.gpu, host, width), "lanes", subject)


def _lowest(loaded: Loaded) -> int:
    """Return the fewest lanes that two readings in a row tell of the GPU in use."""
    loaded.under_load("pcie_width")  # raises where there are too few
    (lanes, use), end_s = ("pcie_width", "utilization_percent"), loaded.run.load_end_s
    values = [
        *_used(loaded.in_collectives(lanes), loaded.in_collectives(use)),
        *_used(loaded.points(lanes, 0.0, end_s), loaded.points(use, 0.0, end_s)),
    ]
    if not values:
        raise CouldNotMeasure("%s: pcie_width: the GPU was never in use" % loaded.subject)
    return int(min(values))


def _used(lanes: Points, use: Points) -> List[float]:
    """Return the wider of each two in a row; where the use is not told, all count."""
    used = dict(use)
    inside = [width for at_s, width in lanes if used.get(at_s, 1)]
    return list(map(max, inside, inside[1:])) or inside
