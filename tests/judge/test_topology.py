"""The matrix rebuilt from samples, against public output of ``nvidia-smi topo -m``.

What the public files say is in ../shared/data/INDEX.md. They differ by the driver that wrote them:
before 520 RDMA devices are columns of their own name and not NIC0; affinity columns were added one
after the other; some were pasted without the legend, with their tabs made spaces or as a Markdown
table with its columns moved. So columns are matched by their name and tokens one by one, and a file
is held to what it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import pytest

from hwcheck.contract.wire import Sample
from hwcheck.judge.topology import LEGEND, NEAR, NEAR_METRICS, topology_of
from tests.topology_text import topology_matrix

SHARED = Path(__file__).parents[3] / "shared" / "data" / "topology"
FILES = (2, 4, 6, 7, 8, 9, 10, 12, 14, 16, 19, 20, 21, 23, 24, 26, 28, 30, 31, 33)
NOT_MATRICES = {
    "topo_p2p_001.txt": "nvidia-smi topo -p2p",
    "topo_p2p_003.txt": "nvidia-smi topo -p2p",
    "topo_034_truncated.txt": "rows are missing",
    "topo_035_truncated.txt": "rows are missing",
    "topo_036_truncated.txt": "rows are missing",
    "topo_037_truncated.txt": "rows are missing",
    "topo_038_truncated.txt": "rows are missing, and -mp leaves NVLink out",
}
TOKEN = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS")
NAME = re.compile(r"GPU\d+|NIC\d+|mlx5_\d+")


@dataclass
class Matrix:
    """A matrix as read from text: cells by row and column, and the tokens of the legend."""

    columns: list[str] = field(default_factory=list)
    rows: dict[str, dict[str, str]] = field(default_factory=dict)
    legend: list[str] = field(default_factory=list)
    nics: dict[str, str] = field(default_factory=dict)

    @property
    def devices(self) -> list[str]:
        return [name for name in self.columns if name not in NEAR]


def read(text: str) -> Matrix:
    """Read a matrix, whichever way it was pasted; what follows a second header is not read."""
    matrix = Matrix()
    for row in text.splitlines():
        words = row.split()
        if "|" in row:
            cells = [cell.strip() for cell in row.strip("| ").split("|")]
            table_row(matrix, cells if len(cells) > 8 else ["", "", *cells])
        elif not matrix.columns:
            matrix.columns = re.findall(f"{NAME.pattern}|{'|'.join(NEAR)}", row)
        elif words and all(NAME.fullmatch(word) for word in words):
            break
        elif nic := re.fullmatch(r"\s*(NIC\d+): (\S+)", row):
            matrix.nics[nic[1]] = nic[2]
        elif legend := re.match(r"\s*(\S+)\s+= ", row):
            matrix.legend.append(legend[1])
        elif words and NAME.fullmatch(words[0]):
            matrix.rows[words[0]] = dict(zip(matrix.columns, words[1:], strict=False))
    return matrix


def table_row(matrix: Matrix, cells: list[str]) -> None:
    """Read a row of a Markdown table, in which the affinity stands before the name."""
    if not matrix.columns:
        matrix.columns = cells[:2] + cells[3:]
    elif NAME.fullmatch(cells[2]):
        values = zip(matrix.columns, cells[:2] + cells[3:], strict=True)
        matrix.rows[cells[2]] = {name: value for name, value in values if value}


def samples(matrix: Matrix) -> Iterator[Sample]:
    """Yield what the check would send of a node with this matrix."""
    subjects = {
        name: name.lower() if name.startswith("GPU") else matrix.nics.get(name, name)
        for name in matrix.devices
    }
    for name, subject in subjects.items():
        yield Sample("pci_address", "0000:18:00.0", "", subject)
        for column, metric in zip(NEAR, NEAR_METRICS, strict=True):
            value = matrix.rows.get(name, {}).get(column, "N/A")
            if value != "N/A" and name.startswith("GPU"):
                yield Sample(metric, value, "", subject)
    for one, other in combinations(matrix.devices, 2):
        path = matrix.rows.get(one, {}).get(other)
        if path is None:  # a fixture without the rows of its RDMA devices
            continue
        metric = "path" if one.startswith("GPU") and other.startswith("GPU") else "nic_path"
        yield Sample(metric, path, "", f"{subjects[one]}-{subjects[other]}")


def rebuilt(matrix: Matrix) -> str:
    topology = topology_of(samples(matrix))
    assert topology is not None
    return topology_matrix(topology)


def differences(original: Matrix, again: Matrix) -> list[str]:
    """Return where a rebuilt matrix is not the original, for what the original has."""
    numbered = {name: f"NIC{n}" for n, name in enumerate(original.nics.values())}
    by_name = [name for name in original.devices if name.startswith("mlx5")]
    numbered |= {name: f"NIC{n}" for n, name in enumerate(by_name)}
    devices = [numbered.get(name, name) for name in original.devices]
    near = [name for name in NEAR if name in original.columns]
    found = [] if devices + near == [*again.devices, *NEAR][: len(devices + near)] else ["columns"]
    for row, cells in original.rows.items():
        for column, cell in cells.items():
            new_row = again.rows[numbered.get(row, row)]
            if new_row[numbered.get(column, column)] != cell:
                found.append(f"{row} {column}")
    if original.legend and original.legend != again.legend:
        found.append("legend")
    if original.nics and original.nics != again.nics:
        found.append("NIC legend")
    return found


def shared(name: str) -> Matrix:
    file = SHARED / name
    if not file.exists():
        pytest.skip(f"{file} is not here")
    return read(file.read_text("utf-8"))


@pytest.mark.parametrize("number", FILES)
def test_the_matrix_is_that_of_nvidia_smi(number: int) -> None:
    original = shared(f"topo_{number:03}.txt")
    assert len(original.rows) >= 2
    for cells in original.rows.values():
        assert all(TOKEN.fullmatch(cell) for name, cell in cells.items() if NAME.fullmatch(name))
    assert differences(original, read(rebuilt(original))) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("NV18\t", "NV17\t"), ["GPU0 GPU1"]),
        (("  SYS ", "  SYT "), ["legend"]),
        (("NIC0: mlx5_0", "NIC0: mlx5_9"), ["NIC legend"]),
        (("\t0-55,112-167\t", "\t0-55\t"), ["GPU0 CPU Affinity"]),
    ],
)
def test_a_matrix_that_is_not_the_same_is_noticed(
    change: tuple[str, str], found: list[str]
) -> None:
    original = shared("topo_014.txt")
    text = rebuilt(original)
    assert change[0] in text
    assert differences(original, read(text.replace(*change, 1))) == found


def test_no_file_is_passed_over() -> None:
    if not SHARED.exists():
        pytest.skip(f"{SHARED} is not here")
    there = {file.name for file in SHARED.glob("topo_*.txt")}
    assert there == {f"topo_{number:03}.txt" for number in FILES} | set(NOT_MATRICES)


def node(*pairs: str, nics: tuple[str, ...] = ()) -> list[Sample]:
    """Samples of two GPUs, and of ``pairs`` (``path gpu0-gpu1 NV4``)."""
    made = [Sample("pci_address", "0000:18:00.0", "", name) for name in ("gpu0", "gpu1", *nics)]
    made += [Sample("cpu_affinity", "0-31,64-95", "", "gpu0")]
    for pair in pairs:
        metric, subject, path = pair.split()
        made.append(Sample(metric, path, "", subject))
    return made


def test_the_form_is_that_of_nvidia_smi() -> None:
    topology = topology_of(
        node(
            "path gpu0-gpu1 NV4", "nic_path gpu0-ib-0 PIX", "nic_path gpu1-ib-0 SYS", nics=("ib-0",)
        )
    )
    assert topology is not None
    head, first, second, nic, *rest = topology_matrix(topology).split("\n")
    assert head == "\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID"
    assert first == "GPU0\t X \tNV4\tPIX\t0-31,64-95\tN/A\t\tN/A"
    assert second == "GPU1\tNV4\t X \tSYS\tN/A\tN/A\t\tN/A"
    assert nic == "NIC0\tPIX\tSYS\t X \t\t\t\t"
    assert rest[:3] == ["", "Legend:", ""]
    assert [row.split()[0] for row in rest[3:10]] == [token for token, _ in LEGEND]
    assert rest[10:] == ["", "NIC Legend:", "", "  NIC0: ib-0", ""]


def test_a_way_that_was_not_measured() -> None:
    topology = topology_of(node())
    assert topology is not None
    assert topology_matrix(topology).split("\n")[1].split("\t")[2] == "?"


def test_nothing_measured() -> None:
    assert topology_of([]) is None


def test_gpus_stand_in_their_own_order() -> None:
    made = [Sample("pci_address", "0000:18:00.0", "", f"gpu{n}") for n in (10, 2, 9)]
    topology = topology_of(made)
    assert topology is not None
    assert [device.name for device in topology.devices] == ["GPU2", "GPU9", "GPU10"]


@pytest.mark.parametrize("text", ["<b>", "NV1\nGPU9", "a\tb", "\x1b[31m", "x" * 500, "NV9999"])
def test_what_a_node_makes_up_is_left_out(text: str) -> None:
    made = [*node(), Sample("pci_address", "0000:18:00.0", "", text)]
    made += [
        Sample("path", text, "", "gpu0-gpu1"),
        Sample("cpu_affinity", text, "", "gpu1"),
        Sample("numa_affinity", 7, "", "gpu1"),
    ]
    topology = topology_of(made)
    assert topology is not None
    shown = topology_matrix(topology)
    if text != "NV9999":  # as the name of a device it is harmless
        assert text not in shown
    assert "\t?\t" in shown
    assert "GPU1\t?\t X \t" in shown.replace(text, "?")


def test_a_node_that_names_too_many_devices() -> None:
    made = [Sample("pci_address", "", "", f"nic{n}") for n in range(500)]
    topology = topology_of(made)
    assert topology is not None
    assert len(topology.devices) == 64
