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

from hwcheck.judge.records import Judgement, worst
from hwcheck.node import checks
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
from hwcheck.results import HostRecord, Run
from hwcheck.series import Observed
from hwcheck.text import count, number

FEW_HOSTS = 2
"""In so small a run the work of every host is drawn; in a larger one what shows something."""
MOST_HOSTS = 20
MOST_GPUS = 16
GAP = 0.12
"""Room between two GPUs, as a share of the time that is drawn of one."""
PAUSE = 0.03
"""Room between two stretches of one GPU, which may have been minutes apart: likewise."""

LOOKS = {"": "#000021", "pass": "#000021", "warn": "#000022", "fail": "#000023"}
COLORS = {"#000021": "leg-default", "#000022": "warn", "#000023": "fail"}
_DIGITS = re.compile(r"(\d\.\d)\d+")
SIGNS = {"warn": "!", "fail": "\u2715"}
NO_BREAK = "\u00a0"
MOST_NAMED = 3
"""GPUs whose checks a caption names."""


Marks = Mapping[str, Mapping[str, str]]
"""The worst outcome of each check that loads the node by the subject that it is about."""
Bounds = Mapping[tuple[str, str], float]
"""The value of a bound by its metric and the GPU's subject."""


def drawn_hosts(run: Run, judgement: Judgement) -> tuple[str, ...]:
    """Return the hosts whose load is worth a picture; whether they had one is not known here.

    In a larger run those that failed or warned at work, failures first, 20 at most.
    """
    if len(run.records) <= FEW_HOSTS:
        return tuple(record.host for record in run.records)
    outcomes = {host: worst(_of_gpus(own).values()) for host, own in _marks(judgement).items()}
    bad = [record.host for record in run.records if outcomes.get(record.host) in SIGNS]
    return tuple(sorted(bad, key=lambda host: outcomes[host] != "fail")[:MOST_HOSTS])


def series_plots(
    run: Run, judgement: Judgement, observed: Mapping[str, Observed]
) -> tuple[Plot, ...]:
    """Return a plot for each of ``drawn_hosts`` that is in ``observed``.

    An exercise on the CPU and work without a plausible sample are left out.
    """
    records = {record.host: record for record in run.records}
    marks = _marks(judgement)
    plots = []
    for host in drawn_hosts(run, judgement):
        of_host = observed.get(host, Observed())
        found, own = stretches(of_host), marks.get(host, {})
        if found:
            stopped = of_host.load is not None and bool(of_host.load.stopped)
            svg = series_plot(found, bounds_of(records[host]), _of_gpus(own))
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


def _marks(judgement: Judgement) -> dict[str, dict[str, dict[str, str]]]:
    """Return the marks of each host that has any but passes."""
    registry = checks.load()
    of_load = {name for name, check in registry.items() if check.load}
    found: dict[str, dict[str, dict[str, str]]] = {}
    for each in judgement.findings:
        if each.outcome != "pass" and each.check in of_load:
            own = found.setdefault(each.host, {}).setdefault(each.subject, {})
            own[each.check] = worst((each.outcome, own.get(each.check, "pass")))
    return found


def _of_gpus(marks: Marks) -> dict[str, str]:
    return {subject: worst(own.values()) for subject, own in marks.items()}


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
