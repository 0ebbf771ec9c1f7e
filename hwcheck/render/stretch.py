"""One stretch of work as it is drawn: what each GPU told of power, temperature and clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hwcheck.judge.plausible import RANGES
from hwcheck.node.load.records import Series
from hwcheck.results.series import Observed

MOST_POINTS = 100
LONGEST_S = 1e6
GPU = re.compile(r"gpu(\d{1,3})\Z")


@dataclass(frozen=True)
class Strip:
    """One quantity: its column, unit and label, and the metric of a check that bounds it or "".

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
    Strip("memory_temperature_c", "C", "memory, C", ""),
    Strip("sm_clock_mhz", "MHz", "SM clock, MHz", "application_sm_clock_mhz", "min"),
)

Points = list[tuple[float, float]]


class Stretch:
    """What was told while the GPUs did one thing, of the GPUs that are drawn.

    ``name`` is what they did, from 0 to ``work_end_s``; it is drawn from ``begin_s`` on, for
    ``length_s``, which is 0 where nothing plausible was told. ``told_s`` is how long it was told.
    """

    def __init__(self, name: str, series: Series, work_end_s: float) -> None:
        self.name = name
        self.work_end_s = work_end_s
        self.told_s = series.time_s[-1] - series.time_s[0] if series.time_s else 0.0
        self.gpus = in_order(subject for subject in series.columns if GPU.match(subject))
        self._points = {
            (strip, subject): _points(series, subject, strip)
            for strip in STRIPS
            for subject in self.gpus
        }
        times = [time_s for own in self._points.values() for time_s, _ in own]
        self.begin_s = min(times, default=0.0)
        self.length_s = max(max(times) - self.begin_s, 1.0) if times else 0.0

    def points(self, strip: Strip, subject: str) -> Points:
        """Return the times and values of one GPU; empty where it told nothing."""
        return self._points.get((strip, subject), [])

    def work(self) -> tuple[float, float] | None:
        """Return from when to when of what is drawn the work went on."""
        begin_s, end_s = max(0.0, self.begin_s), self.work_end_s
        return (begin_s, end_s) if begin_s <= end_s <= self.begin_s + self.length_s else None


def stretches(observed: Observed) -> tuple[Stretch, ...]:
    """Return what a visit had its GPUs do, in that order; without an exercise on the CPU."""
    together, load = observed.collectives, observed.load
    found = [
        *([Stretch("collectives", together.series, together.end_s)] if together else ()),
        *([Stretch("load", load.series, load.load_end_s)] if load and not load.exercise else ()),
    ]
    return tuple(each for each in found if each.length_s)


def subjects(found: Sequence[Stretch]) -> list[str]:
    """Return the GPUs of all of them, in their order."""
    return in_order({subject for each in found for subject in each.gpus})


def in_order(gpus: Iterable[str]) -> list[str]:
    """Return GPUs by their number."""
    return sorted(gpus, key=lambda subject: int(subject[3:]))


def plausible(value: float, unit: str) -> bool:
    """Whether a value of this unit is worth drawing."""
    low, high = RANGES[unit]
    return low <= value <= high


def _points(series: Series, subject: str, strip: Strip) -> Points:
    column = series.columns[subject].get(strip.column, ())
    told = [
        (float(time_s), float(value))
        for time_s, value in zip(series.time_s, column, strict=False)
        if value is not None and plausible(value, strip.unit) and abs(time_s) <= LONGEST_S
    ]
    if len(told) <= MOST_POINTS:
        return told
    # By time: of a long series the ends have more samples than the middle.
    first_s = told[0][0]
    width_s = (told[-1][0] - first_s) / MOST_POINTS or 1.0
    parts: dict[int, Points] = {}
    for at in told:
        parts.setdefault(min(int((at[0] - first_s) / width_s), MOST_POINTS - 1), []).append(at)
    keep = max if strip.keep == "max" else min
    return [keep(part, key=lambda at: at[1]) for part in parts.values()]
