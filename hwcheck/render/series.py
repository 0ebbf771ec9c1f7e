"""Power, temperature and clock of each GPU at work, as SVG to put into the page.

Small multiples: one strip for each quantity, the GPUs side by side in it, all to one scale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from hwcheck.judge.records import Judgement
from hwcheck.render.marks import SIGNS, Marks, drawn_hosts, marks_of, of_gpus
from hwcheck.render.plot import INK, STYLE, Plot, inline_svg
from hwcheck.render.stretch import (
    GPU,
    STRIPS,
    Points,
    Stretch,
    Strip,
    plausible,
    stretches,
    subjects,
)
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.results.series import Observed
from hwcheck.text import count, number

MOST_GPUS = 16
GAP = 0.12
"""Room between two GPUs, as a share of the time that is drawn of one."""
PAUSE = 0.03
"""Room between two stretches of one GPU, which may have been minutes apart: likewise."""

LOOKS = {"": "#000021", "pass": "#000021", "warn": "#000022", "fail": "#000023"}
COLORS = {"#000021": "leg-default", "#000022": "warn", "#000023": "fail"}
_DIGITS = re.compile(r"(\d\.\d)\d+")
NO_BREAK = "\u00a0"
MOST_NAMED = 3
"""GPUs whose checks a caption names."""


Bounds = Mapping[tuple[str, str], float]
"""The value of a bound by its metric and the GPU's subject."""


def series_plots(
    run: Run, judgement: Judgement, observed: Mapping[str, Observed]
) -> tuple[Plot, ...]:
    """Return a plot for each of ``marks.drawn_hosts`` that is in ``observed``.

    An exercise on the CPU and work without a plausible sample are left out.
    """
    records = {record.host: record for record in run.records}
    marks = marks_of(judgement)
    plots = []
    for host in drawn_hosts(run, judgement):
        of_host = observed.get(host, Observed())
        found, own = stretches(of_host), marks.get(host, {})
        if found:
            stopped = of_host.load is not None and bool(of_host.load.stopped)
            svg = series_plot(found, bounds_of(records[host]), of_gpus(own))
            plots.append(Plot(_caption(host, found, own, stopped=stopped), svg))
    return tuple(plots)


def series_plot(found: Sequence[Stretch], bounds: Bounds, outcomes: Mapping[str, str]) -> str:
    """Return the strips of the stretches (one at least), one after the other, as SVG.

    ``outcomes`` are the worst outcome by GPU (``gpu3``): what failed or warned is marked.
    """
    gpus = subjects(found)[:MOST_GPUS]
    worked = sum(each.length_s for each in found)
    pause = PAUSE * worked
    length = worked + pause * (len(found) - 1)
    strips = [strip for strip in STRIPS if any(e.points(strip, gpu) for e in found for gpu in gpus)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.6, 0.5 + 1.5 * len(strips)), layout="constrained")
        FigureCanvasSVG(figure)
        panels = figure.subplots(len(strips), 1, sharex=True, squeeze=False)[:, 0]
        for axes, strip in zip(panels, strips, strict=True):
            for place, gpu in enumerate(gpus):
                at = place * length * (1 + GAP)
                _bound(axes, bounds.get((strip.bound, gpu)), (at, length))
                for each in found:
                    shift = at - each.begin_s
                    _draw(axes, each.points(strip, gpu), shift, outcomes.get(gpu, ""))
                    _band(axes, each.work(), shift)
                    at += each.length_s + pause
            _label(axes, strip)
        _name(panels[-1], gpus, length, outcomes)
        svg = inline_svg(figure, COLORS)
    return re.sub(r' d="[^"]*"', lambda path: _DIGITS.sub(r"\1", path.group()), svg)


def bounds_of(record: HostRecord) -> Bounds:
    """Return what a host's own samples say of the bounds that are drawn."""
    wanted = {strip.bound: strip.unit for strip in STRIPS}
    return {
        (sample.metric, sample.subject): float(sample.value)
        for result in (record.report.results if record.report else ())
        for sample in result.samples
        if wanted.get(sample.metric) == sample.unit
        and isinstance(sample.value, int | float)
        and plausible(sample.value, sample.unit)
    }


def _draw(axes: Axes, points: Points, shift: float, outcome: str) -> None:
    color = LOOKS.get(outcome, LOOKS[""])
    axes.plot([x + shift for x, _ in points], [y for _, y in points], color=color, linewidth=1.4)


def _band(axes: Axes, work: tuple[float, float] | None, shift: float) -> None:
    if work is not None:
        begin_s, end_s = work
        axes.axvspan(begin_s + shift, end_s + shift, color=INK, alpha=0.08, linewidth=0)


def _bound(axes: Axes, value: float | None, where: tuple[float, float]) -> None:
    if value is not None:
        begin, length = where
        axes.plot([begin, begin + length], [value] * 2, color=INK, linewidth=0.9, linestyle="--")


def _label(axes: Axes, strip: Strip) -> None:
    axes.set_ylabel(strip.label, fontsize=9)
    axes.tick_params(labelsize=9)
    axes.tick_params(axis="x", length=0)
    axes.margins(x=0.01)
    axes.grid(visible=True, axis="y", color=INK, alpha=0.15, linewidth=0.8)
    if strip.unit != "C":
        axes.set_ylim(bottom=0)


def _name(axes: Axes, subjects: Sequence[str], length: float, outcomes: Mapping[str, str]) -> None:
    middles = [place * length * (1 + GAP) + length / 2 for place in range(len(subjects))]
    names = [_marked(subject, outcomes.get(subject, "")) for subject in subjects]
    axes.set_xticks(middles, names, fontsize=9 if len(subjects) <= 8 else 7)


def _marked(name: str, outcome: str, space: str = " ") -> str:
    return f"{name}{space}{SIGNS[outcome]}" if outcome in SIGNS else name


def _caption(host: str, found: Sequence[Stretch], marks: Marks, *, stopped: bool) -> str:
    names = [each.name for each in found]
    bands = f"the band is the {names[0]}"
    if len(found) > 1:
        bands = f"the first band is the {names[0]}, the second the {names[1]}"
    ended = ", which was ended for safety" if stopped else ""
    more = len(subjects(found)) - MOST_GPUS
    left = f". {count(more, 'more GPU')} not drawn" if more > 0 else ""
    span = f"each over {number(sum(each.told_s for each in found))} s"
    return f"{host}: the GPUs side by side, {span}, {bands}{ended}{left}{_why(marks)}"


def _why(marks: Marks) -> str:
    """Say which checks complain of which GPU."""
    bad = {
        subject: [_marked(each, out, NO_BREAK) for each, out in sorted(own.items()) if out in SIGNS]
        for subject, own in marks.items()
        if GPU.match(subject)
    }
    named = [f"{gpu}: {', '.join(said)}" for gpu, said in sorted(bad.items()) if said]
    more = len(named) - MOST_NAMED
    rest = [f"and {count(more, 'more GPU')}"] if more > 0 else []
    return ". " + "; ".join([*named[:MOST_NAMED], *rest]) if named else ""
