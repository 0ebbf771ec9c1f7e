"""Figures against what the same subject had in former runs, in words. Pure.

``peers`` asks what like hosts have tonight; this asks what the same GPU or host had on other
nights, under the same software and on the same board (``changes``). It knows nothing of what is
right, so it only ever warns, and it fails together with a limit that the same figure fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hwcheck.checks import telling
from hwcheck.contract.check import Check, Metric
from hwcheck.contract.limits import Growth, Steady
from hwcheck.contract.reasons import CHANGED, COMES_AND_GOES, DRIFTS, GREW, Reason, remark
from hwcheck.contract.wire import Value
from hwcheck.judge.changes import (
    FLAP_RUNS,
    IN_A_ROW,
    LEAST_REFERENCE,
    SOURCE,
    Change,
    changes,
    same_setup,
)
from hwcheck.judge.host_case import HostCase
from hwcheck.judge.interconnect import is_gpu
from hwcheck.judge.past import Past, PastRun, PastSeries, Setup, figures, held, joined, start_s
from hwcheck.judge.records import OWN_PAST, Finding
from hwcheck.results.run_folder import Run
from hwcheck.text import binary_size, count, line, number, quantity

CODES = {"count": GREW, "flapping": COMES_AND_GOES, "drift": DRIFTS}
"""How a figure changed as the code of a reason; every other is a step."""

MOST_RUNS = 90
"""So many runs back it looks."""


def judge_own_past(
    run: Run,
    hosts: Sequence[HostCase],
    findings: Sequence[Sequence[Finding]],
    past: Past,
    checks: Mapping[str, Check],
) -> Iterator[Finding]:
    """Yield a warning for each figure that is not what it was, and a word on new references.

    ``findings`` are those of each host so far: what a limit fails already, fails here too.
    """
    whole = _up_to_now(figures(run, checks), past) if past.runs else past
    if len(whole.runs) < 2:
        return
    failed = {
        (f.host, f.check, f.metric, f.subject)
        for of_host in findings
        for f in of_host
        if f.outcome == "fail"
    }
    bad = {
        (f.host, f.check, f.subject) for of_host in findings for f in of_host if f.outcome != "pass"
    }
    metrics = held(checks)
    by_name = {host.name: host for host in hosts}
    like = {
        host.name: f"{len(host.facts.models)} x {' and '.join(host.facts.kinds)}" for host in hosts
    }
    yield from _new_references(whole, by_name)
    largest: dict[tuple[str, str, str, str], tuple[PastSeries, Change]] = {}
    for of, change in changes(whole, like, metrics):
        key = (of.host, of.check, of.metric, of.subject)
        follows = metrics[of.check][of.metric].follows
        if any((of.host, other, of.subject) in bad for other in follows):
            continue
        if key not in largest or largest[key][0].size_bytes < of.size_bytes:
            largest[key] = of, change
    for key, (of, change) in largest.items():
        check = by_name[of.host].checks.get(of.check)
        if check is not None:
            value = float(whole.values[change.row, -1])
            metric = metrics[of.check][of.metric]
            finding = _finding(metric, of, value, change, whole.runs)
            yield finding._replace(outcome="fail") if key in failed else finding


def _up_to_now(now: Past, past: Past) -> Past:
    """Return what was measured now and of that alone what went before; the last column is now.

    Runs of another profile, or that were asked otherwise, are left out.
    """
    run = now.runs[0]
    earlier = [
        place
        for place, old in enumerate(past.runs)
        if start_s(old) < start_s(run) and old.is_like(run)
    ]
    earlier = earlier[-(MOST_RUNS - 1) :]
    rows = {of: row for row, of in enumerate(past.series)}
    kept = [rows[of] for of in now.series if of in rows]
    before = Past(
        tuple(past.runs[place] for place in earlier),
        tuple(past.series[row] for row in kept),
        past.setups,
        past.values[np.ix_(kept, earlier)],
        past.setup_of[np.ix_(kept, earlier)],
    )
    return joined((before, now))


def _new_references(past: Past, hosts: Mapping[str, HostCase]) -> Iterator[Finding]:
    """Yield what each host's figures have been measured under for too short to be held against."""
    earlier = past.setup_of[:, :-1] >= 0
    alike = (same_setup(past)[:, :-1] & earlier).sum(axis=1)
    needed = LEAST_REFERENCE + IN_A_ROW
    given: set[tuple[str, str, str]] = set()
    for row in np.flatnonzero((alike < needed - 1) & (alike < earlier.sum(axis=1))):
        of, before = past.series[int(row)], past.setup_of[row]
        now = past.setups[before[-1]]
        for place in np.flatnonzero(earlier[row])[::-1]:
            old = past.setups[before[place]]
            changed = [
                (name, *both)
                for name, *both in zip(Setup._fields, old, now, strict=True)
                if all(both) and both[0] != both[1]
            ]
            for name, was, value in changed:
                check, metric = telling(name)
                subject = of.subject if is_gpu(of.subject) and check.per_gpu else "node"
                if (of.host, name, subject) in given or check.id not in hosts[of.host].checks:
                    continue
                given.add((of.host, name, subject))
                yield Finding(
                    host=of.host,
                    check=check.id,
                    outcome="pass",
                    metric=metric.name,
                    subject=subject,
                    value=value,
                    limit=f"its own past has another {name}: {line(was, 120)}",
                    source=SOURCE,
                    confidence="derived",
                    reason=remark(
                        f"{line(was, 120)} until the run of {_night(past.runs[place])}: a new "
                        f"reference starts, and figures are held against it from its run {needed} "
                        f"on (this is run {alike[row] + 1})"
                    ),
                    basis=OWN_PAST,
                )
            if changed:
                break


def _finding(
    metric: Metric, of: PastSeries, value: Value, change: Change, runs: Sequence[PastRun]
) -> Finding:
    if isinstance(metric.past, Growth):
        limit, reason = _counted(metric, metric.past, change, runs)
    else:
        assert metric.past is not None
        limit, reason = _figure_words(of, metric.unit, metric.past, change, runs)
    return Finding(
        host=of.host,
        check=of.check,
        outcome="warn",
        metric=of.metric,
        subject=of.subject,
        value=value,
        unit=metric.unit,
        limit=limit,
        source=SOURCE,
        confidence="derived",
        reason=Reason(CODES.get(change.kind, CHANGED), reason),
        basis=OWN_PAST,
    )


def _figure_words(
    of: PastSeries, unit: str, manner: Steady, change: Change, runs: Sequence[PastRun]
) -> tuple[str, str]:
    """Return the limit and the reason of a figure that is not what it was."""
    side = "above" if manner.bad > 0 else "below"
    first, last = (runs[place] for place in change.reference)
    size = f" at {binary_size(of.size_bytes)}" if of.size_bytes else ""
    former = f"{quantity(change.former, unit)}{size}"
    least = f"{manner.least:.1%}" if manner.ratio else quantity(manner.least, unit)
    limit = (
        f"warn unless like its own past: {former} from {_night(first)} to {_night(last)}, less "
        f"than {least} {side} it or as far as it scatters"
    )
    off = f"{change.off:.1%}" if manner.ratio else quantity(round(change.off, 1), unit)
    since = _night(runs[change.since])
    far = f"{off} {side} its own {former} (now {quantity(change.now, unit)})"
    if change.kind == "flapping":
        lowest = quantity(change.now, unit)
        reason = (
            f"comes and goes: {change.times} times {side} its own {former} in the last {FLAP_RUNS} "
            f"runs, {off} off at worst ({lowest}), last in the run of {since}"
        )
    elif change.kind == "drift":
        slope = f"{change.per_night:.2%}" if manner.ratio else f"{change.per_night:.2g} {unit}"
        reason = f"{far}, {slope} a night since about {since}"
    else:
        nights = count(len(runs) - change.since, "run")
        reason = f"{far}, since the run of {since} ({nights})"
    if abs(change.shared) >= (manner.least / 2):
        shared = f"{change.shared:+.1%}" if manner.ratio else f"{change.shared:+.1f} {unit}"
        reason += f"; the {shared} that all like hosts moved by is not part of it"
    return limit, reason


def _counted(
    metric: Metric, counter: Growth, change: Change, runs: Sequence[PastRun]
) -> tuple[str, str]:
    """Return the limit and the reason of a counter that grows as it did not."""
    unit = metric.unit
    usual = f"{number(round(change.former, 2))} {unit} an hour"
    limit = (
        f"warn unless like its own past: {usual}, less than {number(counter.least)} {unit} since "
        f"the last run, or within {number(counter.window_h)} h, or than "
        f"{number(10**counter.decades)} times as many"
    )
    began = runs[change.since]
    since = f"since the last run, on {_night(began)}"
    if change.since < len(runs) - 2:
        hours = number(round(change.hours, 1))
        since = f"within {hours} h, since the run of {_night(began)} {began.started[11:16]}"
    reason = (
        f"{metric.name} grew by {number(change.events)} {since}: "
        f"{number(round(change.now, 1))} {unit} an hour; {usual} before"
    )
    return limit, reason


def _night(run: PastRun) -> str:
    return run.started[:10]
