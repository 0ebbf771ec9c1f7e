"""Power, temperature and clock of each GPU over a load, as SVG to put into the page.

Small multiples: one strip for each quantity, the GPUs side by side in it, all to one scale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from hwcheck.judge.plausible import RANGES
from hwcheck.judge.records import Judgement, worst
from hwcheck.node import checks
from hwcheck.node.load.records import LoadRun
from hwcheck.render.plot import INK, STYLE, Plot, inline_svg
from hwcheck.results import HostRecord, Run
from hwcheck.text import count, number

FEW_HOSTS = 2
"""In so small a run every load is drawn; in a larger one those with something to look at."""
MOST_HOSTS = 20
MOST_GPUS = 16
MOST_POINTS = 100
LONGEST_S = 1e6
GAP = 0.12
"""Room between two GPUs, as a share of the time that is drawn of one."""

GPU = re.compile(r"gpu(\d{1,3})\Z")
LOOKS = {"": "#000021", "pass": "#000021", "warn": "#000022", "fail": "#000023"}
COLORS = {"#000021": "leg-default", "#000022": "warn", "#000023": "fail"}
_DIGITS = re.compile(r"(\d\.\d)\d+")
SIGNS = {"warn": "!", "fail": "\u2715"}
NO_BREAK = "\u00a0"
MOST_NAMED = 3
"""GPUs whose checks a caption names."""


@dataclass(frozen=True)
class Strip:
    """One quantity: its column, unit and label, and the metric of a check that bounds it.

    Where several samples make one point, ``keep`` (max or min) says which of them is shown.
    """

    column: str
    unit: str
    label: str
    bound: str
    keep: str = "max"


STRIPS = (
    Strip("power_w", "W", "power, W", "power_limit_w"),
    Strip("temperature_c", "C", "temperature, C", "temperature_slowdown_c"),
    Strip("sm_clock_mhz", "MHz", "SM clock, MHz", "application_sm_clock_mhz", "min"),
)

Points = list[tuple[float, float]]
Marks = Mapping[str, Mapping[str, str]]
"""The worst outcome of each check of the load by the subject that it is about."""
Bounds = Mapping[tuple[str, str], float]
"""The value of a bound by its metric and the GPU's subject."""


def drawn_hosts(run: Run, judgement: Judgement) -> tuple[str, ...]:
    """Return the hosts whose load is worth a picture; whether they had one is not known here.

    In a larger run those that failed or warned in a check of the load, failures first, 20 at most.
    """
    if len(run.records) <= FEW_HOSTS:
        return tuple(record.host for record in run.records)
    outcomes = {host: worst(_of_gpus(own).values()) for host, own in _marks(judgement).items()}
    bad = [record.host for record in run.records if outcomes.get(record.host) in SIGNS]
    return tuple(sorted(bad, key=lambda host: outcomes[host] != "fail")[:MOST_HOSTS])


def series_plots(run: Run, judgement: Judgement, loads: Mapping[str, LoadRun]) -> tuple[Plot, ...]:
    """Return a plot for each of ``drawn_hosts`` that has a load in ``loads``.

    An exercise on the CPU and a load without a plausible sample are left out.
    """
    records = {record.host: record for record in run.records}
    marks = _marks(judgement)
    plots = []
    for host in drawn_hosts(run, judgement):
        if host in loads and not loads[host].exercise:
            own = marks.get(host, {})
            svg = series_plot(loads[host], bounds_of(records[host]), _of_gpus(own))
            if svg:
                plots.append(Plot(_caption(host, loads[host], own), svg))
    return tuple(plots)


def series_plot(load: LoadRun, bounds: Bounds, outcomes: Mapping[str, str]) -> str:
    """Return the strips of a load as SVG, empty where there is nothing to draw.

    ``outcomes`` are the worst outcome by GPU (``gpu3``): what failed or warned is marked.
    """
    subjects = sorted((s for s in load.series.columns if GPU.match(s)), key=lambda s: int(s[3:]))
    subjects = subjects[:MOST_GPUS]
    points = {
        (strip.column, subject): _points(load, subject, strip)
        for strip in STRIPS
        for subject in subjects
    }
    times = [time_s for own in points.values() for time_s, _ in own]
    if not times:
        return ""
    begin, length = min(times), max(max(times) - min(times), 1.0)
    strips = [strip for strip in STRIPS if any(points[strip.column, s] for s in subjects)]
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(7.6, 0.5 + 1.5 * len(strips)), layout="constrained")
        FigureCanvasSVG(figure)
        panels = figure.subplots(len(strips), 1, sharex=True, squeeze=False)[:, 0]
        for axes, strip in zip(panels, strips, strict=True):
            for place, subject in enumerate(subjects):
                shift = place * length * (1 + GAP) - begin
                _draw(axes, points[strip.column, subject], shift, outcomes.get(subject, ""))
                _bound(axes, bounds.get((strip.bound, subject)), (shift + begin, length))
                if begin <= load.load_end_s <= begin + length:
                    at_work = (max(begin, 0.0) + shift, load.load_end_s + shift)
                    axes.axvspan(*at_work, color=INK, alpha=0.08, linewidth=0)
            _label(axes, strip)
        _name(panels[-1], subjects, length, outcomes)
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
        and _plausible(sample.value, sample.unit)
    }


def _marks(judgement: Judgement) -> dict[str, dict[str, dict[str, str]]]:
    """Return the marks of each host."""
    registry = checks.load()
    of_load = {name for name, check in registry.items() if check.load and not check.legs}
    found: dict[str, dict[str, dict[str, str]]] = {}
    for each in judgement.findings:
        if each.check in of_load:
            own = found.setdefault(each.host, {}).setdefault(each.subject, {})
            own[each.check] = worst((each.outcome, own.get(each.check, "pass")))
    return found


def _of_gpus(marks: Marks) -> dict[str, str]:
    return {subject: worst(own.values()) for subject, own in marks.items()}


def _plausible(value: float, unit: str) -> bool:
    low, high = RANGES[unit]
    return low <= value <= high


def _points(load: LoadRun, subject: str, strip: Strip) -> Points:
    column = load.series.columns[subject].get(strip.column, ())
    told = [
        (float(time_s), float(value))
        for time_s, value in zip(load.series.time_s, column, strict=False)
        if value is not None and _plausible(value, strip.unit) and abs(time_s) <= LONGEST_S
    ]
    step = -(-len(told) // MOST_POINTS) or 1
    keep = max if strip.keep == "max" else min
    return [keep(told[i : i + step], key=lambda at: at[1]) for i in range(0, len(told), step)]


def _draw(axes: Axes, points: Points, shift: float, outcome: str) -> None:
    color = LOOKS.get(outcome, LOOKS[""])
    axes.plot([x + shift for x, _ in points], [y for _, y in points], color=color, linewidth=1.4)


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


def _caption(host: str, load: LoadRun, marks: Marks) -> str:
    times = load.series.time_s
    ended = ", which was ended for safety" if load.stopped else ""
    more = len([subject for subject in load.series.columns if GPU.match(subject)]) - MOST_GPUS
    left = f". {count(more, 'more GPU')} not drawn" if more > 0 else ""
    span = f"each over {number(times[-1] - times[0])} s"
    return f"{host}: the GPUs side by side, {span}, the band is the load{ended}{left}{_why(marks)}"


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
