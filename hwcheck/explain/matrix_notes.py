"""What a matrix of ``nvidia-smi topo`` means for NCCL. Pure.

Sources: NVIDIA/nccl, src/graph/paths.cc (ncclTopoCheckP2p, ncclTopoCheckGdr) and topo.h.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import combinations

from hwcheck.explain.records import TopologyMatrix
from hwcheck.text import count

NEAR_NIC = ("PIX", "PXB")
"""So near must a NIC be for NCCL to use GPUDirect RDMA by itself; the nearest first."""

STATUS = {
    "CNS": "the chipset is not supported",
    "GNS": "the GPU is not supported",
    "TNS": "the topology is not supported",
    "NS": "not supported",
    "DR": "disabled in the driver's settings",
    "U": "unknown",
    "N/A": "not available",
}
"""nvidia-smi's legend in our words."""


def topology_notes(matrix: TopologyMatrix, *, pcie_only: bool = False) -> Iterator[str]:
    """Yield what the ways between the GPUs and to the NICs mean."""
    if pcie_only:
        yield "topo -mp leaves NVLink out: this says nothing about NVLink"
    ways = [matrix.way(*pair) for pair in combinations(matrix.gpus, 2)]
    kinds = Counter(way for way in ways if way)
    if kinds:
        yield "pairs of GPUs: " + ", ".join(f"{n} {way}" for way, n in sorted(kinds.items()))
    if matrix.nvlink == "all":
        yield from _all_linked(kinds, "every pair" if matrix.complete else "every pair shown")
    elif matrix.nvlink == "some":
        yield from _some_linked(matrix)
    elif kinds:
        yield from _by_pcie(kinds, pcie_only)
    if matrix.nics:
        yield from _nic_notes(matrix)


def _all_linked(kinds: Counter[str], pairs: str) -> Iterator[str]:
    if len(kinds) == 1 and sum(kinds.values()) > 6:
        (links,) = kinds
        yield f"{pairs} has {links}: a full mesh, as of an NVSwitch"


def _some_linked(matrix: TopologyMatrix) -> Iterator[str]:
    unlinked = [
        pair for pair in combinations(matrix.gpus, 2) if not matrix.way(*pair).startswith("NV")
    ]
    relayed = [pair for pair in unlinked if _relay(matrix, *pair)]
    if relayed and len(relayed) == len(unlinked):
        yield "no pair is more than one GPU away by NVLink: NCCL can relay through it (NVB)"
    else:
        yield (
            "NVLink and PCIe mixed: where P2P over PCIe is bad, NCCL_P2P_LEVEL=NVL keeps NVLink, "
            "and NCCL_P2P_DISABLE=1 would turn it off"
        )


def _relay(matrix: TopologyMatrix, one: str, other: str) -> bool:
    return any(
        matrix.way(one, third).startswith("NV") and matrix.way(third, other).startswith("NV")
        for third in matrix.gpus
        if third not in (one, other)
    )


def _by_pcie(kinds: Counter[str], pcie_only: bool) -> Iterator[str]:
    through_cpu = {"PHB", "NODE", "SYS"} & kinds.keys()
    if not through_cpu or pcie_only:
        return
    names = " and ".join(sorted(through_cpu))
    yield (
        f"{names}: the way leads through the CPU. From NCCL 2.23 on there is no P2P there by "
        "default, except with two GPUs on an AMD CPU; up to 2.22 there was, except on Intel and Arm"
    )
    if sum(kinds.values()) == 1:
        yield "of such pairs P2P that hangs or corrupts data is reported: verify the data"


def _nic_notes(matrix: TopologyMatrix) -> Iterator[str]:
    near = {gpu: _nearest(matrix, gpu) for gpu in matrix.gpus if gpu in matrix.cells}
    far = [gpu for gpu, nics in near.items() if not nics]
    if near and len(far) == len(near):
        yield (
            "no GPU has a NIC at PIX or PXB: no GPUDirect RDMA by default, except on Grace, where "
            "the way is C2C and SYS is normal"
        )
    elif far:
        yield f"no NIC at PIX or PXB, so no GPUDirect RDMA by default: {', '.join(far)}"
    shown = [gpu for gpu in matrix.gpus if gpu in near]
    other = [nic for nic in matrix.nics if shown and _is_apart(matrix, nic, shown)]
    if other:
        yield (
            f"SYS from every GPU shown: {', '.join(other[:16])}: behind another CPU socket than "
            "they are, unless this is Grace"
        )
    nearest = [f"{gpu} {'+'.join(nics)}" for gpu, nics in near.items() if nics]
    if nearest:
        yield "nearest NICs: " + ", ".join(nearest[:16])
    siblings = [
        f"{one}+{other}"
        for one, other in combinations(matrix.nics, 2)
        if matrix.way(one, other) == "PIX"
    ]
    if siblings:
        yield "NICs behind one switch, or ports of one NIC: " + ", ".join(siblings[:8])


def _is_apart(matrix: TopologyMatrix, nic: str, gpus: Sequence[str]) -> bool:
    return all(matrix.way(gpu, nic) == "SYS" for gpu in gpus)


def _nearest(matrix: TopologyMatrix, gpu: str) -> list[str]:
    for kind in NEAR_NIC:
        nics = [nic for nic in matrix.nics if matrix.way(gpu, nic) == kind]
        if nics:
            return nics
    return []


def p2p_notes(matrix: TopologyMatrix) -> Iterator[str]:
    """Yield what the driver grants and refuses."""
    refused: dict[str, list[str]] = {}
    for row, cells in matrix.cells.items():
        for column, status in cells.items():
            if status != "OK":
                refused.setdefault(status, []).append(f"{row}-{column}")
    shown = sum(len(cells) for cells in matrix.cells.values())
    if not refused and shown:
        yield f"P2P is granted to {count(shown, 'ordered pair')}"
    for status, pairs in sorted(refused.items()):
        named = ", ".join(pairs[:6]) + (", ..." if len(pairs) > 6 else "")
        yield (
            f"{status} ({STATUS[status]}): no P2P for {named}; NCCL goes through shared memory "
            "there, unless NVLink joins them: then it refuses to start"
        )
