"""The links between a node's GPUs as its answers have them, for a prediction. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hwcheck.checks.p2p_status import PCIE_READ, PCIE_WRITE, p2p_status
from hwcheck.checks.pcie_link import PCIE_LINK_GENERATION_MAX, PCIE_LINK_WIDTH_MAX, pcie_link
from hwcheck.checks.topology import NVLINK_GBPS, NVSWITCH, PATH, PCI_ADDRESS, topology
from hwcheck.judge.host_case import samples_of
from hwcheck.results.run_folder import HostRecord

NEAR = ("PIX", "PXB")
"""Ways on which NCCL lets GPUs reach each other over PCIe. Beyond a switch it does so on no Intel
CPU, and since 2.23 on none but an AMD with two GPUs (NVIDIA/nccl, src/graph/paths.cc)."""

_PAIR = re.compile(r"(gpu\d{1,3})-(gpu\d{1,3})\Z")
_NVLINKS = re.compile(r"NV(\d{1,3})\Z")


@dataclass(frozen=True)
class Hop:
    """The way between two GPUs; ``peer``: the driver lets them reach each other over PCIe."""

    ends: tuple[str, str]
    path: str
    nvlinks: int = 0
    peer: bool = False


@dataclass(frozen=True)
class Links:
    """All hops of a node by the places of their ends; GPUs are counted from 0 as they are listed.

    ``link_gbps`` is what one NVLink carries each way, None where there is none or they differ.
    ``pcie`` has generation and lanes that both ends of a GPU's link have. ``cpu`` is the vendor.
    """

    gpus: int
    hops: Mapping[tuple[int, int], Hop]
    switched: bool = False
    link_gbps: float | None = None
    pcie: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    cpu: str = ""

    @property
    def nvlinks(self) -> dict[tuple[int, int], int]:
        """NVLinks by pair, where there are any."""
        return {pair: hop.nvlinks for pair, hop in self.hops.items() if hop.nvlinks}

    @property
    def fewest(self) -> int:
        """NVLinks of the pair that has the fewest."""
        return min((hop.nvlinks for hop in self.hops.values()), default=0)


def links_of(record: HostRecord) -> Links | None:
    """Return the links of a node, None where it did not tell the way between its GPUs."""
    values = {(s.metric, s.subject): s.value for s in samples_of(record, topology)}
    gpus = sorted(
        (subject for metric, subject in values if metric == PCI_ADDRESS.name and is_gpu(subject)),
        key=lambda subject: int(subject[3:]),
    )
    places = {gpu: place for place, gpu in enumerate(gpus)}
    refused = _refused(record)
    hops = {}
    for (metric, subject), value in values.items():
        pair = _PAIR.match(subject) if metric == PATH.name else None
        if pair is None or pair[1] not in places or pair[2] not in places:
            continue
        path, nvlinks = str(value), _NVLINKS.match(str(value))
        hop = Hop(
            ends=(pair[1], pair[2]),
            path=path,
            nvlinks=int(nvlinks[1]) if nvlinks else 0,
            peer=path in NEAR and subject not in refused,
        )
        one, other = sorted((places[pair[1]], places[pair[2]]))
        hops[one, other] = hop
    if not hops:
        return None
    return Links(
        gpus=len(gpus),
        hops=hops,
        switched=bool(gpus) and all(values.get((NVSWITCH.name, gpu)) is True for gpu in gpus),
        link_gbps=_link_gbps(values, hops),
        pcie=_pcie(record),
        cpu=_cpu(record),
    )


def is_gpu(subject: str) -> bool:
    """Whether a subject is a GPU (``gpu3``)."""
    return re.fullmatch(r"gpu\d{1,3}", subject) is not None


def _link_gbps(
    values: Mapping[tuple[str, str], object], hops: Mapping[tuple[int, int], Hop]
) -> float | None:
    """Return the speed of one link, which NVLinks of a node have alike; None where not known."""
    speeds = set()
    for hop in hops.values():
        together = values.get((NVLINK_GBPS.name, "-".join(hop.ends)))
        if hop.nvlinks and isinstance(together, (int, float)):
            speeds.add(round(together / hop.nvlinks, 5))  # 25.78125 has five
    return speeds.pop() if len(speeds) == 1 else None


def _pcie(record: HostRecord) -> dict[str, tuple[int, int]]:
    """Return what both ends have: what a link came down to is held against it."""
    links: dict[tuple[str, str], int] = {}
    for sample in samples_of(record, pcie_link):
        if type(sample.value) is int:
            links[sample.metric, sample.subject] = sample.value
    return {
        gpu: (generation, links[PCIE_LINK_WIDTH_MAX.name, gpu])
        for (metric, gpu), generation in links.items()
        if metric == PCIE_LINK_GENERATION_MAX.name and (PCIE_LINK_WIDTH_MAX.name, gpu) in links
    }


def _refused(record: HostRecord) -> set[str]:
    """Return the pairs, both ways round, that the driver refuses a way over PCIe."""
    pairs = set()
    for sample in samples_of(record, p2p_status):
        if sample.metric in (PCIE_READ.name, PCIE_WRITE.name) and sample.value != "OK":
            one, _, other = sample.subject.partition("-")
            pairs |= {f"{one}-{other}", f"{other}-{one}"}
    return pairs


def _cpu(record: HostRecord) -> str:
    vendor = record.report.facts.get("cpu_vendor") if record.report else None
    return vendor if isinstance(vendor, str) else ""
