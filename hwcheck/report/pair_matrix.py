"""Figures of pairs as a table with shades: a slow row is a slow host, a slow cell a slow link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from hwcheck.checks.gpu_pairs import P2P_COPY_GBPS, P2P_STATE, gpu_pairs
from hwcheck.contract.wire import Sample
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import number

SHADES = ((0.95, "like"), (0.85, "near"), (0.6, "low"), (0.0, "far"))
"""From which share of the median of all pairs a cell has which shade."""
SIGNS = {"low": "\u25bd", "far": "\u25bc", "bad": "\u2715"}
"""What stands beside the figure: color alone says nothing to everybody."""
LEGEND = (
    "Shades are by the share of the median of all pairs: none from 95 %, \u25bd below 85 %, "
    "\u25bc below 60 %, \u2715 no figure."
)


@dataclass(frozen=True)
class PairMatrix:
    """``rows`` has for each name its cells, each with its shade; empty where nothing was run."""

    title: str
    names: tuple[str, ...]
    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]


def pair_matrix(
    title: str, names: Sequence[str], figures: Mapping[tuple[str, str], float | str]
) -> PairMatrix:
    """Return the matrix; a figure that is a text says why there is none."""
    numbers = [value for value in figures.values() if isinstance(value, float)]
    middle = median(numbers) if numbers else 0.0
    rows = tuple(
        (one, tuple(_cell(one == other, figures.get((one, other)), middle) for other in names))
        for one in names
    )
    return PairMatrix(title, tuple(names), rows)


def _cell(same: bool, figure: float | str | None, middle: float) -> tuple[str, str]:
    if same or figure is None:
        return ("\u00b7" if same else "", "")
    if isinstance(figure, str):
        return f"{SIGNS['bad']} {figure}", "bad"
    share = figure / middle if middle else 1.0
    shade = next(name for least, name in SHADES if share >= least)
    shown = number(float(f"{figure:.3g}"))
    return f"{SIGNS[shade]} {shown}" if shade in SIGNS else shown, shade


def gpu_pair_matrix(record: HostRecord) -> PairMatrix | None:
    """Return the copies between the GPUs of a host; None where they were not measured."""
    results = record.report.results if record.report else ()
    samples = next((result.samples for result in results if result.check == gpu_pairs.id), ())
    gpus = [f"gpu{gpu.index}" for gpu in record.report.gpus] if record.report else []
    figures = dict(_figures(samples, set(gpus)))
    if not figures:
        return None
    title = "Copies from the GPU of the row to that of the column, GB/s (1e9 bytes/s)"
    return pair_matrix(title, gpus, figures)


def _figures(
    samples: Sequence[Sample], gpus: set[str]
) -> list[tuple[tuple[str, str], float | str]]:
    made: list[tuple[tuple[str, str], float | str]] = []
    for sample in samples:
        one, _, other = sample.subject.partition("-")
        if one not in gpus or other not in gpus:
            continue
        if sample.metric == P2P_COPY_GBPS.name and type(sample.value) in (int, float):
            made.append(((one, other), float(sample.value)))
        elif sample.metric == P2P_STATE.name and sample.value == "hang":
            made.append(((one, other), "hang"))
    return made
