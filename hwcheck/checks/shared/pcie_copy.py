"""Copies between host and GPU against what the PCIe link could carry."""

from __future__ import annotations

from statistics import median
from typing import Callable, Iterator, Optional, Tuple

from hwcheck.checks.shared.load_summary import Loaded, peers_metric, percent, with_peers
from hwcheck.contract.check import CouldNotMeasure, Metric, Remedy
from hwcheck.contract.limits import AtLeast, FromSample, Steady
from hwcheck.contract.load_run import GpuWork
from hwcheck.contract.wire import Sample
from hwcheck.node.node import Node

LANE_GBPS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""1e9 bytes/s of one lane each way by generation, after line coding (PCI Express Base
Specification: 2.5, 5, 8, 16, 32 and 64 GT/s; 8b/10b, then 128b/130b, then flits)."""

REMEDY = Remedy(
    cause="a far CPU socket or memory node, an IOMMU that translates each access, a CPU in a power "
    "saving mode, or a link or switch shared with a busy device",
    fix="see pcie_link_under_load for the link itself; then the IOMMU's mode, NUMA affinity, CPU "
    "governor and which slots share a switch",
    command="nvidia-smi topo -m; sudo lspci -vv -d 10de: | grep LnkSta:",
)


def metrics(name: str, direction: str, drawn_as: str) -> Tuple[Metric, ...]:
    """Return the metrics of a check that copies in one direction."""
    return (
        Metric(
            name,
            "GB/s",
            "a copy of pinned memory %s, nothing the other way" % direction,
            (
                AtLeast(
                    "derived: packet headers leave 80 to 90 % of a link; Oracle's and Azure's "
                    "acceptance tests ask for 52 and 48 of 63 GB/s on H100 (83 and 76 %) and for "
                    "21 of 31.5 on A100 (67 %)",
                    fail=0.5,
                    warn=0.65,
                    of=FromSample("pcie_gbps"),
                    confidence="derived",
                ),
            ),
            required=True,
            past=Steady(-1, ratio=True, scatter=0.01, least=0.05),
            drawn_as=drawn_as,
        ),
        Metric(
            "pcie_gbps",
            "GB/s",
            "what the lanes carry each way, at the link's own speed now",
            required=True,
        ),
        peers_metric(
            "percent_of_peers",
            "the same copy",
            "derived: GPUs of one kind have the same link; the way through the far socket costs up "
            "to a fifth, a shared switch half",
            warn=75,
            fail=55,
        ),
    )


def copies(
    node: Node, name: str, figure: Callable[[GpuWork], Optional[float]], direction: str
) -> Iterator[Sample]:
    """Yield the samples of such a check; ``figure`` takes the copy's bandwidth from the work."""

    def of_gpu(loaded: Loaded) -> Iterator[Sample]:
        copied = loaded.figure(figure(loaded.work()), "copy %s" % direction)
        yield Sample(name, copied, "GB/s", loaded.subject)
        yield Sample("pcie_gbps", _link_gbps(loaded), "GB/s", loaded.subject)

    yield from with_peers(node, of_gpu, name, percent("percent_of_peers"))


def _link_gbps(loaded: Loaded) -> float:
    generation = int(median(loaded.under_load("pcie_generation")))
    width = int(median(loaded.under_load("pcie_width")))
    if generation not in LANE_GBPS:
        text = "%s: PCIe generation %d is not known" % (loaded.subject, generation)
        raise CouldNotMeasure(text)
    return round(LANE_GBPS[generation] * width, 2)
