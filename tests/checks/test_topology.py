"""The check on nodes of our cases, against ``nvidia-smi topo -m`` of the same hardware.

The public files are described in ../shared/data/INDEX.md; see also tests/judge/test_topology.py.
"""

from __future__ import annotations

import json
import re
from itertools import combinations
from pathlib import Path

import pytest

from hwcheck import checks
from hwcheck.judge.topology import Topology, topology_of
from hwcheck.node.main import run_check
from hwcheck.testing.fake_node import FakeNode
from tests.topology_text import topology_matrix

CASES = Path(__file__).parents[1] / "cases" / "topology"
SHARED = Path(__file__).parents[3] / "shared" / "data" / "topology"
SAME_HARDWARE = {
    "behind_switches": "topo_010.txt",
    "cube_mesh": "topo_012.txt",
    "dual_port_cards": "topo_019.txt",
    "grace_blackwell": "topo_016.txt",
    "two_titans": "topo_007.txt",
}
LEGEND = ["X", "SYS", "NODE", "PHB", "PXB", "PIX", "NV#"]


def measured(case: str) -> Topology:
    says = json.loads((CASES / f"{case}.json").read_text("utf-8"))["node"]
    node = FakeNode(says)
    topology = topology_of(run_check(checks.load()["topology"], node).samples)
    assert topology is not None
    return topology


def ours(case: str) -> dict[tuple[str, ...], str]:
    """Return the way between every two devices, RDMA devices by their own name."""
    topology = measured(case)
    names = {d: d.name if d.near else d.subject for d in topology.devices}
    return {
        (names[one], names[other]): topology.path(one, other)
        for one in topology.devices
        for other in topology.devices
    }


def theirs(text: str) -> dict[tuple[str, ...], str]:
    """Return the same as nvidia-smi printed it; a row that the file lacks is not there."""
    nics = dict(re.findall(r"(NIC\d+): (\S+)", text))
    header, *rows = (row.split() for row in text.splitlines() if row.strip())
    columns = [word for word in header if re.fullmatch(r"(GPU|NIC|mlx5_)\d+", word)]
    return {
        (nics.get(row[0], row[0]), nics.get(column, column)): cell
        for row in rows
        if row[0] in columns
        for column, cell in zip(columns, row[1:], strict=False)
    }


@pytest.mark.parametrize("case", SAME_HARDWARE)
def test_the_same_hardware_gives_the_same_matrix(case: str) -> None:
    file = SHARED / SAME_HARDWARE[case]
    if not file.exists():
        pytest.skip(f"{file} is not here")
    expected = theirs(file.read_text("utf-8"))
    assert len(expected) >= 4
    found = ours(case)
    assert {pair: found[pair] for pair in expected} == expected


def test_other_hardware_gives_another_matrix() -> None:
    assert ours("cube_mesh") != ours("behind_switches")
    pairs = combinations(SAME_HARDWARE, 2)
    assert all(topology_matrix(measured(a)) != topology_matrix(measured(b)) for a, b in pairs)


@pytest.mark.parametrize("case", SAME_HARDWARE)
def test_the_legend_is_in_the_order_of_nvidia_smi(case: str) -> None:
    text = topology_matrix(measured(case)).partition("Legend:\n")[2]
    assert [row.split()[0] for row in text.splitlines() if " = " in row] == LEGEND
