"""Matrices of ``nvidia-smi topo`` in the ways in which they are met; the nodes are made up."""

from __future__ import annotations

from collections.abc import Sequence

LEGEND = """
Legend:

  X    = Self
  SYS  = PCIe and on to
 another NUMA node GPU0 (wrapped)
  NV#  = that many
"""


def square(names: Sequence[str], ways: Sequence[str]) -> dict[str, list[str]]:
    """A symmetric matrix from the ways of its pairs in order; one way stands for all."""
    count = len(names)
    given = list(ways) * (count * (count - 1) // 2 if len(ways) == 1 else 1)
    rows = {name: ["X"] * count for name in names}
    pairs = [(one, other) for one in range(count) for other in range(one + 1, count)]
    for (one, other), way in zip(pairs, given, strict=True):
        rows[names[one]][other] = rows[names[other]][one] = way
    return rows


def tabs(rows: dict[str, list[str]], near: Sequence[str] = ("0-15", "0")) -> str:
    """As the driver prints it."""
    header = "\t" + "\t".join([*rows, "CPU Affinity", "NUMA Affinity"])
    lines = [
        "\t".join([name, *(" X " if cell == "X" else cell for cell in cells)])
        + ("\t" + "\t".join(near) if name.startswith("GPU") else "\t\t")
        for name, cells in rows.items()
    ]
    return "\n".join([header, *lines]) + "\n" + LEGEND


def blanks(rows: dict[str, list[str]], indent: str = "    ") -> str:
    """As people paste it."""
    header = indent + " " * 8 + "".join(name.ljust(8) for name in rows)
    lines = [
        indent + name.ljust(8) + "".join(cell.center(8) for cell in cells)
        for name, cells in rows.items()
    ]
    return "\n".join([header, *lines])


def markdown(rows: dict[str, list[str]]) -> str:
    """As a documentation shows it: affinity first."""
    lines = ["| CPU Affinity | NUMA Affinity | | " + " | ".join(rows) + " |"]
    lines.append("|---|---|---|" + "---|" * len(rows))
    for name, cells in rows.items():
        near = "0-7,16-23 | 1" if name.startswith("GPU") else " | "
        lines.append(f"| {near} | {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def gpus(count: int) -> list[str]:
    return [f"GPU{n}" for n in range(count)]
