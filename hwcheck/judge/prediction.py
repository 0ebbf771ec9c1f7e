"""What busbw a node's own links allow: the prediction, its rule, and how far off the rule is. Pure.

The constants are NCCL's (NVIDIA/nccl 2.30, src/graph/topo.h and src/graph/tuning.cc), in 1e9
bytes/s each way. Where a rule needs a share that NCCL does not give, it is fitted to published
figures; ``tests/judge/test_published.py`` has them, with the error of every row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, permutations
from types import MappingProxyType

from hwcheck.judge.interconnect import Hop, Links
from hwcheck.text import number

PER_LINK_GBPS: Mapping[float, float] = MappingProxyType(
    {20.0: 18.0, 25.78125: 20.0, 25.0: 20.0, 14.0625: 12.0, 26.5625: 20.6, 53.125: 40.1}
)
"""What NCCL reckons of an NVLink by what the link itself carries: SM60, SM70 and SM75, SM80, SM86,
SM90, SM100_NVLINK_BW."""

NVLS_SHARE: Mapping[float, float] = MappingProxyType({26.5625: 0.85, 53.125: 0.74})
"""What NCCL reckons of the links when the switches add up (nvlsEfficiency, Hopper, Blackwell)."""

NVLS_FROM = (2, 17)
"""NCCL release notes: NVLink SHARP came with 2.17."""

PCIE_GBPS: Mapping[int, float] = MappingProxyType({1: 3, 2: 6, 3: 12, 4: 24, 5: 48, 6: 96})
"""16 lanes, by generation (kvDictPciGen)."""

P2P_SHARE, SHM_SHARE = 0.92, 0.65
"""Of a PCIe link, fitted: peers through a switch, and a copy by way of the host's memory."""

SOCKET_GBPS: Mapping[str, float] = MappingProxyType(
    {"AuthenticAMD": 16.0, "GenuineIntel": 10.0, "ARM": 6.0}
)
"""Between sockets: AMD_BW, SKL_QPI_BW, ARM_BW. Which Intel it is the node does not say; with PCIe 5
it is at least a Sapphire Rapids (SRP_QPI_BW)."""
SAPPHIRE_RAPIDS_GBPS = 22.0
UNKNOWN_SOCKET_GBPS = 10.0

HALF_MIB_PER_GBPS = 0.09
"""Half of the peak is reached at so many MiB for each GB/s of it; fitted to A100, H200, B200."""

FEW_GPUS = 0.6
"""Through switches n GPUs reach 1 - 0.6/n^2 of their links as a ring; fitted to 2 to 8 A100s."""

RING_ONLY = ("all_gather", "reduce_scatter")
COLLECTIVES = ("all_reduce", *RING_ONLY)

ERRORS: Mapping[str, float] = MappingProxyType(
    {"NVLS": 0.02, "ring": 0.02, "mesh": 0.1, "PCIe": 0.05, "shared memory": 0.12}
)
"""Median error of each rule on the published figures."""


MOST_GPUS = 8
"""No node without switches joins more by NVLink."""

MOST_STEPS = 20_000
"""Of the search. When it ends early the rings found so far count: an expectation too low, never
one too high."""

NvlinksByPair = Mapping[tuple[int, int], int]
Ring = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Prediction:
    """``peak_gbps`` for endless messages; ``rule`` is a key of ``ERRORS``, ``way`` says it all."""

    peak_gbps: float
    rule: str
    way: str

    def at(self, size_bytes: int) -> float:
        """Return the busbw in 1e9 bytes/s for a message of this size (as nccl-tests count it)."""
        half_bytes = HALF_MIB_PER_GBPS * self.peak_gbps * 2**20
        return self.peak_gbps / (1 + half_bytes / size_bytes)


def predict(links: Links, collective: str, library: str) -> Prediction | str:
    """Return what a collective reaches over these links, or why that cannot be told.

    ``library`` is the leg's (``NCCL 2.27.5``).
    """
    if links.gpus < 2:
        return "one GPU has no link to a peer"
    if links.switched:
        return _switched(links, collective, library)
    if links.nvlinks and links.link_gbps not in PER_LINK_GBPS:
        return f"no figure is known for an NVLink of {_speed(links.link_gbps)}"
    laid = rings(links.gpus, links.nvlinks)
    if laid:
        per_link = PER_LINK_GBPS[links.link_gbps or 0.0]
        rule = "ring" if links.gpus == 2 else "mesh"
        return Prediction(laid * per_link, rule, f"{laid} rings of NVLinks of {per_link:g} GB/s")
    return _over_pcie(links)


def _switched(links: Links, collective: str, library: str) -> Prediction | str:
    per_link = PER_LINK_GBPS.get(links.link_gbps or 0.0)
    if per_link is None:
        return f"no figure is known for an NVLink of {_speed(links.link_gbps)}"
    n, together = links.gpus, links.fewest * per_link
    what = f"{links.fewest} NVLinks of {per_link:g} GB/s to switches"
    ring = Prediction(together * (1 - FEW_GPUS / n**2), "ring", f"{what}, as a ring")
    share = NVLS_SHARE.get(links.link_gbps or 0.0)
    if share is None or collective in RING_ONLY or _version(library) < NVLS_FROM:
        return ring
    # Each GPU sends its data once and a finished n-th of it: 1 + 1/n of what a sum alone takes.
    added_up = Prediction(2 * (n - 1) / (n + 1) * share * together, "NVLS", f"{what} that add up")
    return max(ring, added_up, key=lambda prediction: prediction.peak_gbps)


def _over_pcie(links: Links) -> Prediction | str:
    """Predict for the best ring: it is as fast as the worst hop that it cannot avoid."""
    speeds: dict[tuple[int, int], tuple[float, Hop]] = {}
    for pair, hop in links.hops.items():
        gbps = hop_gbps(links, hop)
        if gbps is None:
            return f"the PCIe link of {' or '.join(hop.ends)} is not known"
        speeds[pair] = (gbps, hop)
    joined = {gpu: gpu for gpu in range(links.gpus)}
    left = links.gpus - 1
    for (one, other), (gbps, hop) in sorted(speeds.items(), key=lambda item: -item[1][0]):
        a, b = joined[one], joined[other]
        if a != b:
            joined = {gpu: (a if root == b else root) for gpu, root in joined.items()}
            left -= 1
        if not left:
            rule = "PCIe" if hop.peer else "shared memory"
            way = f"{rule} from {hop.ends[0]} to {hop.ends[1]} ({hop.path}): {_links(links, hop)}"
            return Prediction(gbps, rule, way)
    return "not every way between two GPUs was measured"


def hop_gbps(links: Links, hop: Hop) -> float | None:
    """Return what one hop carries each way in 1e9 bytes/s; None where its links are not facts."""
    if hop.nvlinks:
        return hop.nvlinks * PER_LINK_GBPS.get(links.link_gbps or 0.0, 0.0)
    ends = [pcie_gbps(*links.pcie[end]) for end in hop.ends if end in links.pcie]
    if len(ends) < 2 or None in ends:
        return None
    slower = min(end for end in ends if end is not None)
    if hop.peer:
        return P2P_SHARE * slower
    through_memory = SHM_SHARE * slower
    if hop.path != "SYS":
        return through_memory
    return min(through_memory, _socket_gbps(links, hop))


def pcie_gbps(generation: int, lanes: int) -> float | None:
    """Return what NCCL reckons of a PCIe link each way, in 1e9 bytes/s."""
    full = PCIE_GBPS.get(generation)
    return None if full is None or not 1 <= lanes <= 32 else full * lanes / 16


def _socket_gbps(links: Links, hop: Hop) -> float:
    newest = min(links.pcie[end][0] for end in hop.ends)
    if links.cpu == "GenuineIntel" and newest >= 5:
        return SAPPHIRE_RAPIDS_GBPS
    return SOCKET_GBPS.get(links.cpu, UNKNOWN_SOCKET_GBPS)


def _links(links: Links, hop: Hop) -> str:
    generation, lanes = min(links.pcie[end] for end in hop.ends)
    return f"PCIe {generation} x{lanes}"


def _speed(gbps: float | None) -> str:
    return "unknown speed" if gbps is None else f"{number(gbps)} GB/s"


def _version(library: str) -> tuple[int, int]:
    version = re.match(r"NCCL (\d{1,3})\.(\d{1,4})", library)
    return (int(version[1]), int(version[2])) if version else (0, 0)


def rings(gpus: int, links: NvlinksByPair) -> int:
    """Return how many directed rings pass every GPU; ``links`` maps a pair (i < j) to its links.

    An all_reduce over direct links runs as rings, each link in one of them: what the links carry
    together counts only as far as rings can be laid (NVIDIA/nccl, src/graph/search.cc).

    Each undirected ring is one in either direction. Between two GPUs each link is a ring.
    """
    if gpus == 2:
        return links.get((0, 1), 0)
    if not 2 < gpus <= MOST_GPUS:
        return 0
    return 2 * _packed(gpus, tuple(sorted((pair, n) for pair, n in links.items() if n > 0)))


@lru_cache(maxsize=256)
def _packed(gpus: int, links: tuple[tuple[tuple[int, int], int], ...]) -> int:
    """Return the most undirected rings that share no link."""
    free = dict(links)
    degrees = [sum(n for pair, n in links if gpu in pair) for gpu in range(gpus)]
    search = _Search(list(_cycles(gpus, free)), min(degrees) // 2)
    search.lay(free, 0, 0)
    return search.best


class _Search:
    """Lays rings one by one and goes back, until no more can fit or the steps are used up."""

    def __init__(self, cycles: list[Ring], bound: int) -> None:
        self.cycles = cycles
        self.bound = bound
        self.best = 0
        self.steps = 0

    def lay(self, free: dict[tuple[int, int], int], first: int, laid: int) -> None:
        """Lay the rings from ``first`` on into what is ``free``."""
        self.best = max(self.best, laid)
        for place in range(first, len(self.cycles)):
            self.steps += 1
            if self.best >= self.bound or self.steps > MOST_STEPS:
                return
            ring = self.cycles[place]
            if all(free[pair] > 0 for pair in ring):
                self.lay({p: n - (p in ring) for p, n in free.items()}, place, laid + 1)


def _cycles(gpus: int, free: NvlinksByPair) -> Iterator[Ring]:
    for order in permutations(range(1, gpus)):
        if order[0] > order[-1]:
            continue  # the same ring the other way round
        stops = (0, *order, 0)
        ring = [(min(a, b), max(a, b)) for a, b in pairwise(stops)]
        if all(pair in free for pair in ring):
            yield ring
