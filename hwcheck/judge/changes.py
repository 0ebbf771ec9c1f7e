"""Figures that are not what the same subject had in former runs: steps, drifts, flapping. Pure.

A reference is the best fortnight (of runs): an average over all that went before would follow a
slow loss, and take a loss that nobody mended for healthy after a while. What all like subjects
share, such as a hot week, is taken off first.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwcheck.contract.check import Metric
from hwcheck.contract.limits import Growth, Steady
from hwcheck.judge.past import Past, PastSeries, Setup, start_s

SOURCE = (
    "median and median absolute deviation over the subject's own runs (Leys et al., Journal of "
    "Experimental Social Psychology 49, 2013), sums over the last runs (Page, Biometrika 41, "
    "1954), slope by Sen (Journal of the American Statistical Association 63, 1968)"
)

BLOCK_RUNS = 14
LEAST_REFERENCE = 5
"""Runs of a reference: of a fortnight, or of the first runs where there are no more yet."""

IN_A_ROW, IN_A_ROW_SIGMAS = 3, 3.5
"""A figure that was so many standard deviations off in each of its last three runs is not what it
was. One or two bad nights are what a neighbor's job or a restart makes; with the tails of healthy
figures (Student's t of five degrees) one of 150 is so far off by chance, and three in a row once in
3 million."""

LAST_RUNS, CLIP, THRESHOLD = (5, 8, 13), 3.5, 6.5
"""A smaller loss shows in the sum over more runs: in standard deviations, what one run counts at
most, and what the sum must reach over the square root of their number."""

SIGMAS_WORTH = 2.5
"""What wanders for a week is no fault: a sum over many runs has to be so much as well."""

FLAP_RUNS, FLAPS_LEAST, FLAP_SIGMAS = 28, 4, 6.0
"""A subject flaps that was bad, and in between good again, four times within so many runs. Two
spells are a repair that did not hold; with one bad night in a thousand by chance three are had once
in 300 000 figures, four once in 50 million."""

SIGMA_OF_MAD = 1.4826
"""Standard deviation over median absolute deviation, of a normal distribution."""

LEAST_HOSTS = 8
"""Movement that fewer hosts share may be that of some of them."""

COUNTER_MADS, COUNTER_CAP = 8.0, 3.0
"""As far as ``peers`` lets counters scatter, in decades at most."""


class Change(NamedTuple):
    """A figure that is not what it was.

    ``kind`` is step, drift, flapping or count. ``since`` is the place of the first run of it,
    ``reference`` the places of the first and last run that it is held against; ``former`` and
    ``now`` are medians in the metric's unit (of a counter: events an hour), ``off`` is the loss as
    a share, or the rise in the unit. ``times`` are spells where it flaps; ``per_night`` is the
    loss a night where it drifts, in the terms of ``off``. ``events`` are a counter's, over so many
    ``hours`` since that run, ``shared`` what all like hosts moved by meanwhile (not part of
    ``off``).
    """

    row: int
    kind: str
    since: int
    reference: tuple[int, int]
    former: float
    now: float
    off: float
    times: int = 0
    per_night: float = 0.0
    events: float = 0.0
    hours: float = 0.0
    shared: float = 0.0


def changes(
    past: Past, like: Mapping[str, str], metrics: Mapping[str, Mapping[str, Metric]]
) -> Iterator[tuple[PastSeries, Change]]:
    """Yield each figure of the last run that is not what it was.

    ``like`` has by host what it must share with others to be compared with them; ``metrics`` are
    those that are ``held``.
    """
    hours = np.array([start_s(run) / 3600 for run in past.runs])
    same = same_setup(past)
    classes: dict[tuple[object, ...], list[int]] = {}
    for row, of in enumerate(past.series):
        subject = of.subject if of.size_bytes else re.sub(r"\d+", "", of.subject)
        kind = (of.check, of.metric, subject, of.size_bytes, like.get(of.host, of.host))
        classes.setdefault(kind, []).append(row)
    for (check, metric, *_), rows in classes.items():
        manner = metrics[str(check)][str(metric)].past
        hosts = [past.series[row].host for row in rows]
        values, valid = past.values[rows], same[rows]
        for change in _changes_of_class(manner, values, valid, hours, hosts):
            row = rows[change.row]
            yield past.series[row], change._replace(row=row)


def same_setup(past: Past) -> NDArray[np.bool_]:
    """Return which figures were measured under what those of the last run were.

    What is not known of either is no difference.
    """
    same = past.setup_of >= 0
    for field in Setup._fields:
        texts = [getattr(setup, field) for setup in past.setups]
        codes = {text: place for place, text in enumerate(dict.fromkeys(("", *texts)))}
        code = np.array([*(codes[text] for text in texts), 0], np.int32)[past.setup_of]
        now = code[:, -1:]
        same &= (code == now) | (code == 0) | (now == 0)
    return same


def _changes_of_class(
    manner: Steady | Growth | None,
    values: NDArray[np.float64],
    valid: NDArray[np.bool_],
    hours: NDArray[np.float64],
    hosts: Sequence[str],
) -> Iterator[Change]:
    """Yield what changed among the figures of one metric of like subjects.

    ``values`` has a row for each subject and a column for each run, the last one is judged; only
    those that are ``valid`` count. ``hours`` are when the runs began, ``hosts`` whose each row is.
    """
    values = np.where(valid, values, np.nan)
    if isinstance(manner, Growth):
        yield from _grown(manner, values, hours, hosts)
    elif manner:
        yield from _moved(manner, values, hours, hosts)


def _moved(
    manner: Steady,
    values: NDArray[np.float64],
    hours: NDArray[np.float64],
    hosts: Sequence[str],
) -> Iterator[Change]:
    scaled = _scaled(manner, values)
    shared = _shared_movement(scaled, hosts)
    runs = _Runs.of(scaled - shared)
    reference = _reference(runs, IN_A_ROW, LEAST_REFERENCE)
    jumps = _median(np.abs(np.diff(runs.values, axis=1))) * SIGMA_OF_MAD / math.sqrt(2)
    quiet = np.fmin(reference.scatter, jumps)  # of a subject that flaps, too
    scatter, quiet = (
        np.fmax(np.fmax(each, _median(each[None])[0]), manner.scatter) for each in (jumps, quiet)
    )
    off = runs.values - reference.level[:, None]
    least = -math.log1p(-manner.least) if manner.ratio else manner.least
    judged = ~np.isnan(scaled[:, -1]) & ~np.isnan(reference.level)
    spells, is_bad = _spells(off, runs.counts, quiet, least)
    flaps = judged & (spells >= FLAPS_LEAST)
    off_now = judged & ~flaps & _is_off(off, runs.counts, reference, scatter, least)
    for row in np.flatnonzero(flaps | off_now):
        series = off[row, : runs.counts[row]]
        places = runs.places[row, : runs.counts[row]]
        first, end = reference.first[row], reference.end[row]
        former = _median(values[row, places[first:end]][None])[0]
        if flaps[row]:
            bad = np.flatnonzero(is_bad[row, : len(series)])
            kind, since, slope = "flapping", int(bad[-1]), 0.0
            level, now = series[bad].max(), _worst(manner, values[row, places[bad]])
        else:
            kind, since, slope = _how(series, hours[places] / 24, first + LEAST_REFERENCE)
            level = float(np.median(series[-3:] if slope else series[since:]))
            now = _median(values[row, places[-3:]][None])[0]
        moved = float(shared[places[-1]] - np.median(shared[places[first:end]]))
        yield Change(
            row=int(row),
            kind=kind,
            since=int(places[since]),
            reference=(int(places[first]), int(places[end - 1])),
            former=float(former),
            now=float(now),
            off=_share(manner, level),
            times=int(spells[row]) if flaps[row] else 0,
            per_night=_share(manner, slope),
            shared=math.copysign(_share(manner, moved), moved * manner.bad),
        )


def _scaled(manner: Steady, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return values on the scale on which they are compared: more is worse."""
    if not manner.ratio:
        return manner.bad * values
    return manner.bad * np.log(np.where(values > 0, values, np.nan))


def _share(manner: Steady, off: float) -> float:
    """Return how far off the former value something is: a share of it, or in the unit."""
    return abs(math.expm1(manner.bad * off)) if manner.ratio else abs(off)


def _is_off(
    off: NDArray[np.float64],
    counts: NDArray[np.intp],
    reference: _Reference,
    scatter: NDArray[np.float64],
    least: float,
) -> NDArray[np.bool_]:
    """Return which rows are worse than their reference in their last runs, beyond chance."""
    doubt = 1.57 / (reference.end - reference.first).clip(1)  # variance of a median
    worth = np.fmax(least, SIGMAS_WORTH * scatter)
    in_a_row = _last(off, counts, IN_A_ROW)
    middle = np.median(in_a_row, axis=1)
    wide = scatter * np.sqrt(1 + doubt)
    worse = (in_a_row.min(axis=1) >= IN_A_ROW_SIGMAS * wide) & (middle >= worth)
    for runs in LAST_RUNS:
        latest = _last(off, counts, runs)
        summed = np.clip(latest / scatter[:, None], -CLIP, CLIP).sum(axis=1) / math.sqrt(runs)
        beyond = summed >= THRESHOLD * np.sqrt(1 + runs * doubt)
        long_enough = counts - runs >= LEAST_REFERENCE
        worse |= long_enough & beyond & (np.median(latest, axis=1) >= worth)
    worse &= (in_a_row[:, 0] >= least) & (middle >= least / 2)  # and still is
    return np.asarray(worse, bool)


def _last(off: NDArray[np.float64], counts: NDArray[np.intp], runs: int) -> NDArray[np.float64]:
    """Return the last runs of each row; where it has fewer, the first one several times."""
    at = (counts[:, None] - np.arange(1, runs + 1)).clip(0)
    return np.take_along_axis(off, at, axis=1)


def _spells(
    off: NDArray[np.float64], counts: NDArray[np.intp], scatter: NDArray[np.float64], least: float
) -> tuple[NDArray[np.intp], NDArray[np.bool_]]:
    """Return how often each row went from good to bad in its last runs, and where it is bad."""
    bad = off >= np.fmax(least, FLAP_SIGMAS * scatter)[:, None]
    good = off < np.fmax(least, FLAP_SIGMAS * scatter)[:, None] / 2
    spells = np.zeros(len(off), np.intp)
    was_good = np.zeros(len(off), bool)
    for back in range(min(FLAP_RUNS, off.shape[1]), 0, -1):
        at = (counts - back).clip(0)[:, None]
        here = counts >= back
        is_bad = here & np.take_along_axis(bad, at, axis=1)[:, 0]
        spells += is_bad & was_good
        was_good = (was_good & ~is_bad) | (here & np.take_along_axis(good, at, axis=1)[:, 0])
    return spells, bad


def _how(
    off: NDArray[np.float64], nights: NDArray[np.float64], earliest: int
) -> tuple[str, int, float]:
    """Return whether a row moved in a step or drifts, since which place, and its slope a night.

    Both are fitted from each place on, by the least squares; a drift has to fit better, and by
    Sen's slope to go on with 95 % confidence. A run that is twice as far off as the last ones are
    counts as that much.
    """
    far = 2 * abs(float(np.median(off[-IN_A_ROW:])))
    off = np.clip(off, -far, far)
    best = {"step": (math.inf, earliest), "drift": (math.inf, earliest)}
    total = float((off**2).sum())
    for since in range(min(earliest, len(off) - IN_A_ROW), len(off) - 1):
        tail = off[since:]
        step = total - float(tail.sum()) ** 2 / len(tail)
        ramp = nights[since:] - nights[since - 1]
        drift = total - float((tail * ramp).sum()) ** 2 / float((ramp**2).sum())
        best["step"] = min(best["step"], (step, since))
        best["drift"] = min(best["drift"], (drift, since))
    since = best["drift"][1]
    if best["drift"][0] < best["step"][0] and len(off) - since >= LAST_RUNS[0]:
        from scipy.stats import theilslopes  # not above: it takes a second, and few drift

        slope, _, low, _ = theilslopes(off[since:], nights[since:])
        if low > 0:
            return "drift", since, float(slope)
    return "step", best["step"][1], 0.0


def _worst(manner: Steady, values: NDArray[np.float64]) -> float:
    return float(values.max() if manner.bad > 0 else values.min())


def _grown(
    counter: Growth,
    values: NDArray[np.float64],
    hours: NDArray[np.float64],
    hosts: Sequence[str],
) -> Iterator[Change]:
    """Yield the counters that grew since the last run, or within their window, as they do not.

    One that is below what it was began anew, and its count is what came since at least. Where few
    runs tell how it usually grows, no more than it ever counted before is usual.
    """
    runs = _Runs.of(values)
    if runs.values.shape[1] < 2:
        return
    rows = np.arange(len(values))
    times = hours[runs.places]
    gone_hours = np.diff(times, axis=1).clip(1 / 60)
    grown = np.diff(runs.values, axis=1)
    grown = np.where(grown < 0, runs.values[:, 1:], grown)
    a_day = np.log10(1 + grown / gone_hours * 24)
    steps = _Runs(a_day, runs.places[:, 1:], (runs.counts - 1).clip(0))
    reference = _reference(steps, 1, 1)
    last = (steps.counts - 1).clip(0)
    until = times[rows, last + 1][:, None]
    inside = (until - times[:, :-1] <= counter.window_h) & ~np.isnan(grown)
    inside[rows, last] = True
    from_run = inside.argmax(axis=1)
    events = np.where(inside, grown, 0.0).sum(axis=1)
    in_hours = (until[:, 0] - times[rows, from_run]).clip(1 / 60)
    now = np.log10(1 + events / in_hours * 24)
    before = np.log10(1 + runs.values[rows, from_run])
    few = reference.end - reference.first < LEAST_REFERENCE
    level = np.where(few, np.fmax(np.nan_to_num(reference.level), before), reference.level)
    width = np.clip(COUNTER_MADS * np.nan_to_num(reference.scatter), counter.decades, COUNTER_CAP)
    away = now - level
    judged = ~np.isnan(values[:, -1]) & (steps.counts >= 1)
    if len(set(hosts)) >= LEAST_HOSTS:
        away = away - np.fmax(0, _median(np.where(judged, away, np.nan)[None])[0])
    for row in np.flatnonzero(judged & (away > width) & (events >= counter.least)):
        place = runs.places[row]
        usual = 10 ** (reference.level[row] if not np.isnan(reference.level[row]) else 0) - 1
        first, end = reference.first[row], max(reference.end[row], reference.first[row] + 1)
        yield Change(
            row=int(row),
            kind="count",
            since=int(place[from_run[row]]),
            reference=(int(place[first]), int(place[end])),
            former=float(usual / 24),
            now=float(events[row] / in_hours[row]),
            off=0.0,
            events=float(events[row]),
            hours=float(in_hours[row]),
        )


@dataclass(frozen=True)
class _Runs:
    """What was measured, row by row and without gaps: ``places`` are the columns it is from.

    ``counts`` has how many each row has; what is beyond is NaN.
    """

    values: NDArray[np.float64]
    places: NDArray[np.intp]
    counts: NDArray[np.intp]

    @classmethod
    def of(cls, values: NDArray[np.float64]) -> _Runs:
        missing = np.isnan(values)
        places = np.argsort(missing, axis=1, kind="stable")
        counts = values.shape[1] - missing.sum(axis=1)
        return cls(np.take_along_axis(values, places, axis=1), places, counts)


@dataclass(frozen=True)
class _Reference:
    """What each row is held against: from ``first`` to before ``end`` of its runs.

    ``level`` is their median, NaN where there are too few; ``scatter`` a standard deviation.
    """

    level: NDArray[np.float64]
    scatter: NDArray[np.float64]
    first: NDArray[np.intp]
    end: NDArray[np.intp]


def _reference(runs: _Runs, last: int, least: int) -> _Reference:
    """Return the best fortnight of each row before its ``last`` runs, or what it has of the first.

    More is worse.
    """
    rows = len(runs.values)
    level, scatter = np.full(rows, np.nan), np.full(rows, np.nan)
    first, end = np.zeros(rows, np.intp), np.zeros(rows, np.intp)
    before = (runs.counts - last).clip(0)
    for start in range(0, runs.values.shape[1], BLOCK_RUNS):
        length = (before - start).clip(0, BLOCK_RUNS)
        block = runs.values[:, start : start + BLOCK_RUNS]
        block = np.where(np.arange(block.shape[1]) < length[:, None], block, np.nan)
        whole = length >= (least if start == 0 else BLOCK_RUNS)
        if not whole.any():
            break
        middle = _median(block)
        better = whole & ~(middle >= level)
        deviation = SIGMA_OF_MAD * _median(np.abs(block - middle[:, None]))
        level, scatter = np.where(better, middle, level), np.where(better, deviation, scatter)
        first, end = np.where(better, start, first), np.where(better, start + length, end)
    return _Reference(level, scatter, first, end)


def _shared_movement(scaled: NDArray[np.float64], hosts: Sequence[str]) -> NDArray[np.float64]:
    """Return by run how far all like subjects moved together; 0 where too few hosts tell."""
    apart = scaled - _median(scaled)[:, None]
    names = {host: place for place, host in enumerate(dict.fromkeys(hosts))}
    present = np.zeros((len(names), scaled.shape[1]), bool)
    np.logical_or.at(present, [names[host] for host in hosts], ~np.isnan(scaled))
    together: NDArray[np.float64] = np.nan_to_num(_median(apart.T))
    return np.where(present.sum(axis=0) >= LEAST_HOSTS, together, 0.0)


def _median(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the median of each row without its NaNs; NaN where it has nothing else."""
    ordered = np.sort(values, axis=1)  # NaN comes last
    counts = values.shape[1] - np.isnan(values).sum(axis=1)
    rows = np.arange(len(values))
    low, high = ((counts - 1) // 2).clip(0), (counts // 2).clip(0, values.shape[1] - 1)
    middle: NDArray[np.float64] = (ordered[rows, low] + ordered[rows, high]) / 2
    return middle
