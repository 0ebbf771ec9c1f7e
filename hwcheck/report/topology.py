"""The topology matrices of a run: hosts with the same one stand together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from hwcheck.checks.topology import topology
from hwcheck.contract.wire import Sample
from hwcheck.fold import fold
from hwcheck.judge.topology import legend_lines, matrix_rows, nic_lines, topology_of
from hwcheck.report.svg import Plot
from hwcheck.report.topology_drawing import draw, in_words
from hwcheck.results.run_folder import HostRecord, Run

MOST_GROUPS = 16
"""In a fleet of unlike hosts the rest is named only; the run folder has every matrix."""


@dataclass(frozen=True)
class Matrix:
    """A matrix in columns of equal width, the hosts that have it, folded, and a drawing of one."""

    hosts: str
    text: str
    drawn: Markup
    in_words: str


@dataclass(frozen=True)
class Topologies:
    """Every matrix of a run, those of most hosts first; ``left_out`` are hosts whose is not shown.

    The text holds letters, digits and punctuation of addresses only, whatever the nodes sent.
    """

    matrices: tuple[Matrix, ...]
    left_out: str
    legend: str


def topologies(run: Run) -> Topologies:
    """Return the matrices of the hosts that measured one."""
    hosts: dict[str, list[str]] = {}
    samples_of: dict[str, Sequence[Sample]] = {}
    texts: dict[tuple[int, ...], str] = {}
    for record in run.records:
        samples = _samples(record)
        same = tuple(map(id, samples))  # those that are alike are one object, as they are read
        if same not in texts:
            texts[same] = _matrix(samples)
        if texts[same]:
            hosts.setdefault(texts[same], []).append(record.host)
            samples_of.setdefault(texts[same], samples)
    groups = sorted(hosts.items(), key=lambda group: -len(group[1]))
    shown = tuple(_shown(names, text, samples_of[text]) for text, names in groups[:MOST_GROUPS])
    rest = [name for _, names in groups[MOST_GROUPS:] for name in names]
    return Topologies(shown, fold(rest), "\n".join(legend_lines()))


def _shown(names: Iterable[str], text: str, samples: Iterable[Sample]) -> Matrix:
    topology = topology_of(samples)
    assert topology is not None
    drawn = Markup(draw(topology))  # noqa: S704 (its texts are escaped)
    return Matrix(fold(names), text, drawn, in_words(topology))


def drawn_host(record: HostRecord, bad: Collection[str]) -> Plot | None:
    """Return one host drawn with what is ``bad`` there; None where its topology is not known."""
    topology = topology_of(_samples(record))
    return None if topology is None else Plot(in_words(topology, bad), draw(topology, bad))


def _samples(record: HostRecord) -> Sequence[Sample]:
    results = record.report.results if record.report else ()
    return next((result.samples for result in results if result.check == topology.id), ())


def _matrix(samples: Iterable[Sample]) -> str:
    topology = topology_of(samples)
    if topology is None:
        return ""
    lines = aligned(list(matrix_rows(topology)))
    nics = list(nic_lines(topology))
    return "\n".join([*lines, "", *nics] if nics else lines)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the rows as lines whose columns are as wide as their widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
