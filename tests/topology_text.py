"""A rebuilt topology in the form of ``nvidia-smi topo -m``, to be held against what that prints."""

from __future__ import annotations

from hwcheck.judge.topology import NEAR, Topology, legend_lines, matrix_rows, nic_lines


def topology_matrix(topology: Topology) -> str:
    """Return the matrix with its legends; columns are separated by tabs."""
    header, *rows = matrix_rows(topology)
    lines = ["\t".join(header)]
    for name, *cells in rows:
        ways, near = cells[: -len(NEAR)], cells[-len(NEAR) :]
        ways = [" X " if way == "X" else way for way in ways]
        # The title NUMA Affinity is two tabs wide.
        lines.append("\t".join([name, *ways, near[0], near[1], "", near[2]]))
    lines += ["", "Legend:", "", *(f"  {text}" for text in legend_lines())]
    if topology.nics:
        lines += ["", "NIC Legend:", "", *(f"  {text}" for text in nic_lines(topology))]
    return "\n".join(lines) + "\n"
