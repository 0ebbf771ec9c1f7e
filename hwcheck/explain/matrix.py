"""``nvidia-smi topo -m`` and ``-p2p``: the matrix as the driver prints it and as people paste it.

Tokens are told from words, not from columns: drivers print tabs or blanks, people paste Markdown
tables, cut rows, and put legends into the middle. What is cut is read as far as it goes; a matrix
that contradicts itself, as one whose header is broken over two lines, is refused.

First the reader, then what the matrix means for NCCL (NVIDIA/nccl, src/graph/paths.cc,
ncclTopoCheckP2p and ncclTopoCheckGdr, and topo.h).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice

from hwcheck.explain.records import TopologyMatrix, Unknown
from hwcheck.judge.topology import MOST_DEVICES
from hwcheck.text import count, line

TOPOLOGY, P2P = "topology", "p2p-status"
LINE_CHARACTERS = 8000
MOST_MATRICES = 100
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

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_GPU = re.compile(r"GPU\d{1,3}\Z")
_DEVICE = re.compile(r"(?:GPU\d{1,3}|NIC\d{1,3}|[a-z][\w.-]{0,39}\d)\Z")
_PATH = re.compile(r"(?:X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC)\Z")
_STATUS = re.compile(r"(?:X|OK|CNS|GNS|TNS|NS|DR|U|N/A)\Z")
_ONLY_PATH = re.compile(r"(?:NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC)\Z")
_WAY = re.compile(r"(?:X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC|OK|CNS|GNS|TNS|NS|DR)\Z")
_NIC = re.compile(r"\s*(NIC\d{1,3}): (\S{1,60})\s*\Z")
_NEAR = {"CPU", "NUMA", "GPU", "Affinity", "ID"}
"""Words of the columns beside the devices: CPU Affinity, NUMA Affinity, GPU NUMA ID."""


@dataclass
class _Block:
    """One matrix as it is being read."""

    devices: list[str]
    rows: dict[str, list[str]] = field(default_factory=dict)
    nics: dict[str, str] = field(default_factory=dict)
    pcie_only: bool = False
    odd: int = 0
    contradiction: str = ""


def read(file: str, text: str) -> list[TopologyMatrix | Unknown]:
    """Return the matrices of a text, in their order, and what is damaged; none where none is."""
    blocks = (block for block in _blocks(text) if block.rows or block.contradiction)
    return [
        _refused(file, block) or _matrix(file, block) for block in islice(blocks, MOST_MATRICES)
    ]


def _refused(file: str, block: _Block) -> Unknown | None:
    """Return the entry of a matrix that contradicts itself; None of one that does not."""
    contradiction = block.contradiction or _crossed(block)
    if not contradiction:
        return None
    return Unknown(file, (f"a damaged matrix of nvidia-smi topo: {contradiction}",))


def _crossed(block: _Block) -> str:
    """Return how the cells of two rows contradict each other, or a row its own place."""
    places = {name: place for place, name in enumerate(block.devices)}
    for name, cells in block.rows.items():
        for place, cell in enumerate(cells):
            if (cell == "X") != (place == places[name]):
                return f"the row of {name} has {cell} in the column of {block.devices[place]}"
    is_topology = any(_ONLY_PATH.match(cell) for cells in block.rows.values() for cell in cells)
    for one, other in combinations(block.rows, 2) if is_topology else ():
        here, back = block.rows[one][places[other] :][:1], block.rows[other][places[one] :][:1]
        if here and back and here != back:
            return f"{one} and {other} contradict each other: {here[0]} and {back[0]}"
    return ""


def _blocks(text: str) -> Iterator[_Block]:
    block: _Block | None = None
    pcie_only = False
    for raw in re.split(r"\r\n?|\n", text):
        words = _ESCAPES.sub("", raw[:LINE_CHARACTERS]).replace("|", " ").split()
        if "topo" in words:
            pcie_only = bool({"-mp", "--matrix_pci"} & set(words))
        devices = _header(words)
        if devices:
            if block:
                yield block
            block = _Block(devices, pcie_only=pcie_only)
        elif block:
            _take(block, words, raw)
    if block:
        yield block


def _header(words: Sequence[str]) -> list[str]:
    """Return the devices of a header line; empty for any other line."""
    start = next((n for n, word in enumerate(words) if _GPU.match(word)), None)
    if start is None or any(_PATH.match(word) or _STATUS.match(word) for word in words):
        return []
    # What stands before is affinity (in a Markdown table) or a launcher's prefix.
    if not all(word in _NEAR or word.endswith((":", ">")) for word in words[:start]):
        return []
    devices: list[str] = []
    for word in words[start : start + 2 * MOST_DEVICES]:
        if word in _NEAR or not _DEVICE.match(word) or word in devices:
            break
        devices.append(word)
    return devices


def _take(block: _Block, words: Sequence[str], raw: str) -> None:
    nic = _NIC.match(_ESCAPES.sub("", raw[:200]))
    if nic:
        block.nics[nic.group(1)] = nic.group(2)
        return
    place = next((n for n in range(len(words) - 1) if _begins_row(words[n], words[n + 1])), None)
    # A Markdown table may have the affinity columns before the device; a legend has words there.
    if place is None or any(word.isalpha() for word in words[:place]):
        return
    name = words[place]
    if name not in block.devices:
        block.contradiction = (
            block.contradiction or f"{name} has a row, and no column in the header"
        )
        return
    cells: list[str] = []
    for word in words[place + 1 :]:
        if not (_PATH.match(word) or _STATUS.match(word)) or len(cells) == len(block.devices):
            break
        cells.append(word)
    more = words[place + 1 + len(cells) :][:1]
    if len(cells) == len(block.devices) and more and _WAY.match(more[0]):
        columns = count(len(block.devices), "column")
        block.contradiction = block.contradiction or (
            f"the row of {name} has {more[0]} behind its {columns} of devices"
        )
    if name in block.rows:
        block.odd += 1
    else:
        block.rows[name] = cells


def _begins_row(name: str, cell: str) -> bool:
    return bool(_DEVICE.match(name) and (_PATH.match(cell) or _STATUS.match(cell)))


def _matrix(file: str, block: _Block) -> TopologyMatrix:
    statuses = [cell for cells in block.rows.values() for cell in cells if cell != "X"]
    kind = TOPOLOGY if not statuses or any(map(_ONLY_PATH.match, statuses)) else P2P
    allowed = _PATH if kind == TOPOLOGY else _STATUS
    names = {device: block.nics.get(device, device) for device in block.devices}
    cells = {
        names[row]: {
            names[column]: "SYS" if cell == "SOC" else cell
            for column, cell in zip(block.devices, row_cells, strict=False)
            if column != row and allowed.match(cell)
        }
        for row, row_cells in block.rows.items()
    }
    gpus = tuple(name for name in block.devices if _GPU.match(name))
    nics = tuple(names[name] for name in block.devices if not _GPU.match(name))
    matrix = TopologyMatrix(file, kind, gpus, nics, cells, None)
    shown = {pair for pair in combinations(gpus, 2) if matrix.way(*pair)}
    missing = len(gpus) * (len(gpus) - 1) // 2 - len(shown)
    nvlink = _nvlink(matrix, block.pcie_only) if kind == TOPOLOGY else None
    notes = [*_form_notes(block, missing)]
    matrix = TopologyMatrix(file, kind, gpus, nics, cells, nvlink, (), not missing)
    if kind == TOPOLOGY:
        notes += topology_notes(matrix, pcie_only=block.pcie_only)
    else:
        notes += p2p_notes(matrix)
    return TopologyMatrix(file, kind, gpus, nics, cells, nvlink, tuple(notes), not missing)


def _nvlink(matrix: TopologyMatrix, pcie_only: bool) -> str | None:
    """Say how many of the pairs that are shown have NVLink; None where nothing shows it."""
    shown = [way for pair in combinations(matrix.gpus, 2) if (way := matrix.way(*pair))]
    linked = [way.startswith("NV") for way in shown]
    if pcie_only or not shown:
        return "none" if len(matrix.gpus) == 1 and not pcie_only else None
    return "all" if all(linked) else "some" if any(linked) else "none"


def _form_notes(block: _Block, missing: int) -> Iterator[str]:
    absent = [name for name in block.devices if name not in block.rows and _GPU.match(name)]
    cut = [name for name, cells in block.rows.items() if len(cells) < len(block.devices)]
    if absent or cut:
        named = line(", ".join([*absent, *cut][:8]), 200)
        pairs = f": {count(missing, 'pair')} of GPUs not shown" if missing else ""
        yield f"the matrix is cut: rows missing or short ({named}){pairs}"
    if block.odd:
        yield f"{count(block.odd, 'row')} left out: their device has a row already"


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
