"""Hosts at work, as SVG to put into the page: power, temperature and clock of each GPU over time.

Small multiples: one strip for each quantity, the GPUs side by side in it, all to one scale. First
whose work is worth a picture and what is marked in it, then what of a series is drawn, then the
drawing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwcheck.advise.assessment import Assessment
from hwcheck.checks.clocks_under_load import APPLICATION_SM_CLOCK_MHZ
from hwcheck.checks.power_under_load import POWER_LIMIT_W
from hwcheck.checks.temperature_under_load import TEMPERATURE_SLOWDOWN_C
from hwcheck.contract.check import Check, Metric
from hwcheck.contract.load_run import Series
from hwcheck.judge.records import Judgement, worst
from hwcheck.judge.units import UNITS
from hwcheck.report.svg import INK, Plot, drawing, inline_svg
from hwcheck.results.run_folder import HostRecord, Run
from hwcheck.results.series import VisitSeries
from hwcheck.text import count, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FEW_HOSTS = 2
"""In so small a run the work of every host is drawn; in a larger one what shows something."""
MOST_HOSTS = 20
MOST_GPUS = 16
MOST_POINTS = 100
MOST_NAMED = 3
"""GPUs whose checks a caption names."""
LONGEST_S = 1e6
GPU = re.compile(r"gpu(\d{1,3})\Z")

GAP = 0.12
"""Room between two GPUs, as a share of the time that is drawn of one."""
PAUSE = 0.03
"""Room between two stretches of one GPU, which may have been minutes apart: likewise."""

SIGNS = {"warn": "!", "fail": "\u2715"}
LOOKS = {"": "#000021", "pass": "#000021", "warn": "#000022", "fail": "#000023"}
COLORS = {"#000021": "leg-default", "#000022": "warn", "#000023": "fail"}
NO_BREAK = "\u00a0"
_DIGITS = re.compile(r"(\d\.\d)\d+")

Marks = Mapping[str, Mapping[str, str]]
"""The worst outcome of each check that loads the node by the subject that it is about."""

Bounds = Mapping[tuple[str, str], float]
"""The value of a bound by its metric and the GPU's subject."""

Points = list[tuple[float, float]]
"""Times in seconds and values."""


@dataclass(frozen=True)
class Strip:
    """One quantity: its column, unit and label, and the metric that bounds it.

    Where several samples make one point, ``keep`` (max or min) says which of them is shown.
    """

    column: str
    unit: str
    label: str
    bound: Metric | None
    keep: str = "max"


STRIPS = (
    Strip("power_w", "W", "power, W", POWER_LIMIT_W),
    Strip("temperature_c", "C", "temperature, C", TEMPERATURE_SLOWDOWN_C),
    Strip("memory_temperature_c", "C", "memory, C", None),
    Strip("sm_clock_mhz", "MHz", "SM clock, MHz", APPLICATION_SM_CLOCK_MHZ, "min"),
)


def load_plots(assessment: Assessment) -> tuple[Plot, ...]:
    """Return a plot for each of ``drawn_hosts`` of which there is a series.

    An exercise on the CPU and work without a plausible sample are left out.
    """
    records = {record.host: record for record in assessment.run.records}
    checks = assessment.catalogue.checks
    marks_by_host = _marks_by_host(assessment.judgement, checks)
    plots = []
    for host in drawn_hosts(assessment.run, assessment.judgement, checks):
        observed = assessment.series.get(host, VisitSeries())
        drawn, marks = stretches(observed), marks_by_host.get(host, {})
        if drawn:
            stopped = observed.load is not None and bool(observed.load.stopped)
            svg = load_svg(drawn, bounds_of(records[host]), _outcomes(marks))
            plots.append(Plot(_caption(host, drawn, marks, stopped=stopped), svg))
    return tuple(plots)


def drawn_hosts(run: Run, judgement: Judgement, checks: Mapping[str, Check]) -> tuple[str, ...]:
    """Return the hosts whose load is worth a picture; whether they had one is not known here.

    In a larger run those that failed or warned at work, failures first, 20 at most.
    """
    if len(run.records) <= FEW_HOSTS:
        return tuple(record.host for record in run.records)
    outcomes = {
        host: worst(_outcomes(marks).values())
        for host, marks in _marks_by_host(judgement, checks).items()
    }
    bad = [record.host for record in run.records if outcomes.get(record.host) in SIGNS]
    return tuple(sorted(bad, key=lambda host: outcomes[host] != "fail")[:MOST_HOSTS])


def _marks_by_host(
    judgement: Judgement, checks: Mapping[str, Check]
) -> dict[str, dict[str, dict[str, str]]]:
    """Return the marks of each host that has any but passes."""
    of_load = {name for name, check in checks.items() if check.load}
    marks: dict[str, dict[str, dict[str, str]]] = {}
    for finding in judgement.not_passed:
        if finding.check in of_load:
            outcomes = marks.setdefault(finding.host, {}).setdefault(finding.subject, {})
            outcomes[finding.check] = worst((finding.outcome, outcomes.get(finding.check, "pass")))
    return marks


def _outcomes(marks: Marks) -> dict[str, str]:
    """Return the worst outcome of each GPU."""
    return {subject: worst(by_check.values()) for subject, by_check in marks.items()}


class Stretch:
    """One stretch of work, of the GPUs that are drawn.

    ``name`` is what they did, from 0 to ``work_end_s``; it is drawn from ``begin_s`` on, for
    ``length_s``, which is 0 where there is nothing plausible. ``series_s`` is how long the series
    is.
    """

    def __init__(self, name: str, series: Series, work_end_s: float) -> None:
        self.name = name
        self.work_end_s = work_end_s
        self.series_s = series.time_s[-1] - series.time_s[0] if series.time_s else 0.0
        self.gpus = _by_number(subject for subject in series.columns if GPU.match(subject))
        self._points = {
            (strip, subject): _points(series, subject, strip)
            for strip in STRIPS
            for subject in self.gpus
        }
        times = [time_s for points in self._points.values() for time_s, _ in points]
        self.begin_s = min(times, default=0.0)
        self.length_s = max(max(times) - self.begin_s, 1.0) if times else 0.0

    def points(self, strip: Strip, subject: str) -> Points:
        """Return the times and values of one GPU; empty where it has none."""
        return self._points.get((strip, subject), [])

    def work(self) -> tuple[float, float] | None:
        """Return from when to when of what is drawn the work went on."""
        begin_s, end_s = max(0.0, self.begin_s), self.work_end_s
        return (begin_s, end_s) if begin_s <= end_s <= self.begin_s + self.length_s else None


def stretches(observed: VisitSeries) -> tuple[Stretch, ...]:
    """Return what a visit had its GPUs do, in that order; without an exercise on the CPU."""
    together, load = observed.collectives, observed.load
    of_visit = [
        *([Stretch("collectives", together.series, together.end_s)] if together else ()),
        *([Stretch("load", load.series, load.load_end_s)] if load and not load.exercise else ()),
    ]
    return tuple(stretch for stretch in of_visit if stretch.length_s)


def _subjects(drawn: Sequence[Stretch]) -> list[str]:
    """Return the GPUs of all of them, in their order."""
    return _by_number({subject for stretch in drawn for subject in stretch.gpus})


def _by_number(gpus: Iterable[str]) -> list[str]:
    return sorted(gpus, key=lambda subject: int(subject[3:]))


def _is_plausible(value: float, unit: str) -> bool:
    return UNITS[unit].lowest <= value <= UNITS[unit].highest


def _points(series: Series, subject: str, strip: Strip) -> Points:
    column = series.columns[subject].get(strip.column, ())
    points = [
        (float(time_s), float(value))
        for time_s, value in zip(series.time_s, column, strict=False)
        if value is not None and _is_plausible(value, strip.unit) and abs(time_s) <= LONGEST_S
    ]
    if len(points) <= MOST_POINTS:
        return points
    # By time: of a long series the ends have more samples than the middle.
    first_s = points[0][0]
    width_s = (points[-1][0] - first_s) / MOST_POINTS or 1.0
    parts: dict[int, Points] = {}
    for point in points:
        parts.setdefault(min(int((point[0] - first_s) / width_s), MOST_POINTS - 1), []).append(
            point
        )
    keep = max if strip.keep == "max" else min
    return [keep(part, key=lambda point: point[1]) for part in parts.values()]


def bounds_of(record: HostRecord) -> Bounds:
    """Return what a host's own samples say of the bounds that are drawn."""
    units = {strip.bound.name: strip.unit for strip in STRIPS if strip.bound}
    return {
        (sample.metric, sample.subject): float(sample.value)
        for result in (record.report.results if record.report else ())
        for sample in result.samples
        if units.get(sample.metric) == sample.unit
        and isinstance(sample.value, int | float)
        and _is_plausible(sample.value, sample.unit)
    }


def load_svg(drawn: Sequence[Stretch], bounds: Bounds, outcomes: Mapping[str, str]) -> str:
    """Return the strips of the stretches (one at least), one after the other, as SVG.

    ``outcomes`` are the worst outcome by GPU (``gpu3``): what failed or warned is marked.
    """
    gpus = _subjects(drawn)[:MOST_GPUS]
    worked_s = sum(stretch.length_s for stretch in drawn)
    pause = PAUSE * worked_s
    length = worked_s + pause * (len(drawn) - 1)
    strips = [
        strip
        for strip in STRIPS
        if any(stretch.points(strip, gpu) for stretch in drawn for gpu in gpus)
    ]
    with drawing(7.6, 0.5 + 1.5 * len(strips)) as figure:
        panels = figure.subplots(len(strips), 1, sharex=True, squeeze=False)[:, 0]
        for axes, strip in zip(panels, strips, strict=True):
            for place, gpu in enumerate(gpus):
                at = place * length * (1 + GAP)
                bound = bounds.get((strip.bound.name, gpu)) if strip.bound else None
                _draw_bound(axes, bound, (at, length))
                for stretch in drawn:
                    shift = at - stretch.begin_s
                    _draw_line(axes, stretch.points(strip, gpu), shift, outcomes.get(gpu, ""))
                    _draw_band(axes, stretch.work(), shift)
                    at += stretch.length_s + pause
            _label(axes, strip)
        _name_gpus(panels[-1], gpus, length, outcomes)
        svg = inline_svg(figure, COLORS)
    return re.sub(r' d="[^"]*"', lambda path: _DIGITS.sub(r"\1", path.group()), svg)


def _draw_line(axes: Axes, points: Points, shift: float, outcome: str) -> None:
    color = LOOKS.get(outcome, LOOKS[""])
    axes.plot([x + shift for x, _ in points], [y for _, y in points], color=color, linewidth=1.4)


def _draw_band(axes: Axes, work: tuple[float, float] | None, shift: float) -> None:
    if work is not None:
        begin_s, end_s = work
        axes.axvspan(begin_s + shift, end_s + shift, color=INK, alpha=0.08, linewidth=0)


def _draw_bound(axes: Axes, value: float | None, where: tuple[float, float]) -> None:
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


def _name_gpus(axes: Axes, gpus: Sequence[str], length: float, outcomes: Mapping[str, str]) -> None:
    middles = [place * length * (1 + GAP) + length / 2 for place in range(len(gpus))]
    names = [_marked(gpu, outcomes.get(gpu, "")) for gpu in gpus]
    axes.set_xticks(middles, names, fontsize=9 if len(gpus) <= 8 else 7)


def _marked(name: str, outcome: str, space: str = " ") -> str:
    return f"{name}{space}{SIGNS[outcome]}" if outcome in SIGNS else name


def _caption(host: str, drawn: Sequence[Stretch], marks: Marks, *, stopped: bool) -> str:
    names = [stretch.name for stretch in drawn]
    bands = f"the band is the {names[0]}"
    if len(drawn) > 1:
        bands = f"the first band is the {names[0]}, the second the {names[1]}"
    ended = ", which was ended for safety" if stopped else ""
    more = len(_subjects(drawn)) - MOST_GPUS
    left = f". {count(more, 'more GPU')} not drawn" if more > 0 else ""
    span = f"each over {number(sum(stretch.series_s for stretch in drawn))} s"
    return f"{host}: the GPUs side by side, {span}, {bands}{ended}{left}{_complaints(marks)}"


def _complaints(marks: Marks) -> str:
    """Say which checks complain of which GPU."""
    by_gpu = {
        subject: [
            _marked(check, outcome, NO_BREAK)
            for check, outcome in sorted(by_check.items())
            if outcome in SIGNS
        ]
        for subject, by_check in marks.items()
        if GPU.match(subject)
    }
    named = [f"{gpu}: {', '.join(names)}" for gpu, names in sorted(by_gpu.items()) if names]
    more = len(named) - MOST_NAMED
    rest = [f"and {count(more, 'more GPU')}"] if more > 0 else []
    return ". " + "; ".join([*named[:MOST_NAMED], *rest]) if named else ""
