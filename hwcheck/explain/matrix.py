"""``nvidia-smi topo -m`` and ``-p2p``: the matrix as the driver prints it and as people paste it.

Tokens are told from words, not from columns: drivers print tabs or blanks, people paste Markdown
tables, cut rows, and put legends into the middle.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice

from hwcheck.explain.matrix_notes import p2p_notes, topology_notes
from hwcheck.explain.records import TopologyMatrix
from hwcheck.judge.topology import MOST_DEVICES
from hwcheck.text import count, line

TOPOLOGY, P2P = "topology", "p2p-status"
LINE_CHARACTERS = 8000
MOST_MATRICES = 100

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
_GPU = re.compile(r"GPU\d{1,3}\Z")
_DEVICE = re.compile(r"(?:GPU\d{1,3}|NIC\d{1,3}|[a-z][\w.-]{0,39}\d)\Z")
_PATH = re.compile(r"(?:X|NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC)\Z")
_STATUS = re.compile(r"(?:X|OK|CNS|GNS|TNS|NS|DR|U|N/A)\Z")
_ONLY_PATH = re.compile(r"(?:NV\d{1,3}|PIX|PXB|PHB|NODE|SYS|SOC)\Z")
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


def read(file: str, text: str) -> list[TopologyMatrix]:
    """Return the matrices of a text, in their order; none where there is none."""
    blocks = (block for block in _blocks(text) if block.rows)
    return [_matrix(file, block) for block in islice(blocks, MOST_MATRICES)]


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
    place = next((n for n, word in enumerate(words) if word in block.devices), None)
    # A Markdown table may have the affinity columns before the device; a legend has words there.
    if place is None or any(word.isalpha() for word in words[:place]):
        return
    name = words[place]
    cells: list[str] = []
    for word in words[place + 1 :]:
        if not (_PATH.match(word) or _STATUS.match(word)) or len(cells) == len(block.devices):
            break
        cells.append(word)
    if not cells:
        return
    if name in block.rows:
        block.odd += 1
    else:
        block.rows[name] = cells


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
    notes = [*_form_notes(matrix, block, missing)]
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


def _form_notes(matrix: TopologyMatrix, block: _Block, missing: int) -> Iterator[str]:
    absent = [name for name in block.devices if name not in block.rows and _GPU.match(name)]
    cut = [name for name, cells in block.rows.items() if len(cells) < len(block.devices)]
    if absent or cut:
        named = line(", ".join([*absent, *cut][:8]), 200)
        pairs = f": {count(missing, 'pair')} of GPUs not shown" if missing else ""
        yield f"the matrix is cut: rows missing or short ({named}){pairs}"
    if block.odd:
        yield f"{count(block.odd, 'row')} left out: their device has a row already"
    for one, other in combinations(matrix.gpus, 2):
        here = matrix.cells.get(one, {}).get(other)
        back = matrix.cells.get(other, {}).get(one)
        if here and back and here != back and matrix.kind == TOPOLOGY:
            yield f"{one} and {other} contradict each other: {here} and {back}"
            return
