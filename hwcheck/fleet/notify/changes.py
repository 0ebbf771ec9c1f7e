"""Former open problems and a sweep in, what is open now and what to tell of it out. Pure.

Told is a change: new, worse, cleared, and once in a while what is still open. A problem is cleared
when it was looked for twice without being seen: one that comes and goes is one problem. What
follows from a cause that is open on a host already is no news.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hwcheck.fleet.notify.problems import (
    CHECK_OF,
    Problem,
    RunProblems,
    links_not_measured,
    not_drained,
    not_measured,
    repeated_incidents,
)
from hwcheck.fold import fold
from hwcheck.judge.records import OUTCOMES, worst

NEW, WORSE, OPEN, CLEARED, GONE = "new", "worse", "still open", "cleared", "not in the inventory"
KINDS = (NEW, WORSE, OPEN, CLEARED, GONE)
"""What is news, in this order."""
DRAINED = "drained"
"""What is done about hosts, beside what is news of them."""
WELL_TIMES = 2
"""A problem that was looked for so often in a row and not seen is cleared."""
REMIND_DAYS = 7
MOST_EVIDENCE = 4


@dataclass(frozen=True)
class Sweep:
    """A sweep that ended. Times are UTC, ``2026-01-31T12:00:00Z``.

    ``levels`` are its levels, each with the seconds from one of its sweeps to the next; ``hosts``
    are those of the inventory, ``measured`` counts those of which there is an answer,
    ``late`` maps those that no sweep came to for too long to the days since it last did, and
    ``late_links`` those whose links to others were not measured for too long to which these are; it
    is None where no level had a look at them. ``repeated`` likewise maps those on which the driver
    reports faults again and again to when it did.
    ``reports`` are the run folders with their reports, as paths or addresses. ``drained`` are the
    hosts that were drained for what this sweep measured; ``undrained`` maps those that could not be
    to why, and is None where nobody asked for it.
    """

    id: str
    levels: Mapping[str, float]
    inventory: str
    started: str
    finished: str
    hosts: tuple[str, ...]
    measured: int
    late: Mapping[str, int] = field(default_factory=dict)
    late_links: Mapping[str, str] | None = None
    repeated: Mapping[str, str] | None = None
    reports: tuple[str, ...] = ()
    drained: tuple[str, ...] = ()
    undrained: Mapping[str, str] | None = None


@dataclass(frozen=True)
class OpenProblem:
    """A problem that was told and is not cleared.

    ``since`` is when it was first seen; ``problem`` has its worst outcome and every subject since
    then. ``well`` counts how often in a row it was looked for and not seen.
    """

    problem: Problem
    since: str
    well: int = 0


@dataclass(frozen=True)
class LastSweep:
    """The last sweep of a level: when (UTC), with how many hosts, and when the next one is due."""

    started: str
    finished: str
    hosts: int
    measured: int
    every_s: float


@dataclass(frozen=True)
class State:
    """What is kept between sweeps: the last one, what is open, and when people were reminded.

    ``ended`` is how the last sweep of each level ended.
    """

    sweep: str = ""
    reminded: str = ""
    open: tuple[OpenProblem, ...] = ()
    ended: Mapping[str, LastSweep] = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """Hosts of which the same is news, folded.

    ``kind`` is one of KINDS, ``checks`` what complains, ``since`` when the first of them began,
    ``days`` the days since then; ``evidence`` are lines that name their hosts.
    """

    kind: str
    outcome: str
    title: str
    hosts: tuple[str, ...]
    checks: tuple[str, ...]
    since: str
    days: int
    evidence: tuple[str, ...]
    fix: str
    is_cause: bool = False


@dataclass(frozen=True)
class Message:
    """What is told of one sweep; ``id`` is the sweep's, so that nobody is told twice.

    ``open_hosts`` counts the hosts with open problems after it.
    """

    id: str
    time: str
    title: str
    levels: tuple[str, ...]
    inventory: str
    groups: tuple[Group, ...]
    open_problems: int
    open_hosts: int
    hosts: int
    measured: int
    reports: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def changes(
    former: State, sweep: Sweep, observed: Sequence[RunProblems], remind_days: int = REMIND_DAYS
) -> tuple[State, Message | None]:
    """Return what is open after a sweep, and what to tell; None where nothing changed.

    A sweep that is the state's own was told already: nothing changes. Of a host that was visited
    several times in a sweep the last run counts.
    """
    if former.sweep == sweep.id:
        return former, None
    seen, well, waived = _in_sum(observed)
    for problem in not_measured(sweep.late):
        seen[problem.host, problem.check] = problem
    for problems_of, why in (
        (not_drained, sweep.undrained),
        (links_not_measured, sweep.late_links),
        (repeated_incidents, sweep.repeated),
    ):
        for problem in problems_of(why or {}):
            seen[problem.host, problem.check] = problem
        for host in set(sweep.hosts) - set(why) if why is not None else ():
            well.setdefault(host, set()).add(CHECK_OF[problems_of])
    news: list[tuple[str, OpenProblem]] = []
    still: dict[tuple[str, str], OpenProblem] = {}
    before = {(each.problem.host, each.problem.check): each for each in former.open}
    hosts = set(sweep.hosts)
    for key, old in before.items():
        host, check = key
        if host not in hosts:
            news.append((GONE, old))
        elif key in seen:
            merged, is_worse = _merged(old, seen[key])
            still[key] = merged
            if is_worse:
                news.append((WORSE, merged))
        elif key in waived:
            continue  # whoever waived it knows
        elif check in well.get(host, ()):
            if old.well + 1 >= WELL_TIMES:
                news.append((CLEARED, old))
            else:
                still[key] = replace(old, well=old.well + 1)
        else:
            still[key] = old
    causes = {(old.problem.host, old.problem.cause): old.problem.outcome for old in before.values()}
    for key, problem in seen.items():
        if key in before or problem.host not in hosts:
            continue
        made = OpenProblem(problem, sweep.finished)
        still[key] = made
        outcome = causes.get((problem.host, problem.cause)) if problem.cause else None
        if outcome is None or worst((outcome, problem.outcome)) != outcome:
            news.append((NEW, made))
    due = _due(former, still.values(), sweep.finished, remind_days)
    news += [(OPEN, each) for each in due]
    state = State(
        sweep=sweep.id,
        reminded=sweep.finished if due else former.reminded,
        open=tuple(still[key] for key in sorted(still)),
        ended={**former.ended, **_ended(sweep)},
    )
    return state, _message(state, sweep, news) if news or sweep.drained else None


def _ended(sweep: Sweep) -> dict[str, LastSweep]:
    return {
        level: LastSweep(sweep.started, sweep.finished, len(sweep.hosts), sweep.measured, every_s)
        for level, every_s in sweep.levels.items()
    }


def _in_sum(
    observed: Iterable[RunProblems],
) -> tuple[dict[tuple[str, str], Problem], dict[str, set[str]], set[tuple[str, str]]]:
    """Return problems by host and check, the checks that were well by host, and what is waived."""
    seen: dict[tuple[str, str], Problem] = {}
    well: dict[str, set[str]] = {}
    waived: set[tuple[str, str]] = set()
    for run in observed:
        for host, checks in run.well.items():
            well.setdefault(host, set()).update(checks)
            for check in checks:
                seen.pop((host, check), None)
        for problem in run.problems:
            key = (problem.host, problem.check)
            seen[key] = problem
            well.get(problem.host, set()).discard(problem.check)
        waived |= run.waived
    return seen, well, waived


def _merged(old: OpenProblem, now: Problem) -> tuple[OpenProblem, bool]:
    """Return a problem as it is open after being seen again, and whether it is worse than ever.

    A subject that comes in beside all that were named is worse; one that goes is not better.
    """
    before = old.problem
    outcome = worst((before.outcome, now.outcome))
    is_worse = outcome != before.outcome or not set(now.subjects) <= set(before.subjects)
    if now.outcome == "inconclusive" or before.outcome == "inconclusive":
        # What could not be measured is neither better nor worse than what could.
        is_worse = (before.outcome, now.outcome) in (
            ("inconclusive", "fail"),
            ("inconclusive", "warn"),
        )
        outcome = now.outcome if is_worse else before.outcome
    subjects = tuple(sorted({*before.subjects, *now.subjects}))
    cause = now.cause or before.cause
    kept = replace(now, outcome=outcome, subjects=subjects, cause=cause, fix=now.fix or before.fix)
    return OpenProblem(kept, old.since), is_worse


def _due(
    former: State, still: Iterable[OpenProblem], now: str, remind_days: int
) -> list[OpenProblem]:
    """Return what has been open for so long that people are reminded: all of it at once."""
    old = [each for each in still if days_between(each.since, now) >= remind_days]
    recent = former.reminded and days_between(former.reminded, now) < remind_days
    return [] if recent else old


def days_between(since: str, now: str) -> int:
    """Return whole days between two times (UTC); none where the clock went back."""
    return max(0, (parsed(now) - parsed(since)) // timedelta(days=1))


def parsed(time: str) -> datetime:
    """Return a time of ``run.json``."""
    return datetime.strptime(time, "%Y-%m-%dT%H:%M:%SZ")  # noqa: DTZ007 - all are UTC


def _message(state: State, sweep: Sweep, news: Iterable[tuple[str, OpenProblem]]) -> Message:
    groups = tuple(_groups(news, sweep.finished))
    amounts = {kind: {h for g in groups if g.kind == kind for h in g.hosts} for kind in KINDS}
    amounts[DRAINED] = set(sweep.drained)
    counted = ", ".join(f"{len(hosts)} {kind}" for kind, hosts in amounts.items() if hosts)
    drained = f"{DRAINED}, so that no further job starts there: {fold(sorted(sweep.drained))}"
    return Message(
        id=sweep.id,
        time=sweep.finished,
        title=f"hwcheck {', '.join(sweep.levels)}: hosts: {counted}",
        levels=tuple(sweep.levels),
        inventory=sweep.inventory,
        groups=groups,
        open_problems=len(state.open),
        open_hosts=len({each.problem.host for each in state.open}),
        hosts=len(sweep.hosts),
        measured=sweep.measured,
        reports=sweep.reports,
        notes=(drained,) if sweep.drained else (),
    )


def _groups(news: Iterable[tuple[str, OpenProblem]], now: str) -> Iterable[Group]:
    """Return what is news, hosts folded: the kinds in their order, and in each the gravest first.

    Of equals a cause comes before a check, and then what more hosts have.
    """
    by_title: dict[tuple[str, str], list[OpenProblem]] = {}
    for kind, each in news:
        by_title.setdefault((kind, each.problem.title), []).append(each)
    groups = [_group(kind, title, members, now) for (kind, title), members in by_title.items()]
    return sorted(
        groups,
        key=lambda group: (
            KINDS.index(group.kind),
            OUTCOMES.index(group.outcome),
            not group.is_cause,
            -len(group.hosts),
            group.title,
        ),
    )


def _group(kind: str, title: str, members: Sequence[OpenProblem], now: str) -> Group:
    problems = [each.problem for each in members]
    since = min(each.since for each in members)
    return Group(
        kind=kind,
        outcome=worst(each.outcome for each in problems),
        title=title,
        hosts=tuple(sorted({each.host for each in problems})),
        checks=tuple(sorted({each.check for each in problems} - {""})),
        since=since,
        days=days_between(since, now),
        evidence=tuple(_evidence(problems)),
        fix=next((each.fix for each in problems if each.fix), ""),
        is_cause=any(each.cause for each in problems),
    )


def _evidence(problems: Iterable[Problem]) -> Iterable[str]:
    hosts: dict[str, list[str]] = {}
    for each in problems:
        if each.evidence:
            name = f"{each.check}: " if each.check else ""
            hosts.setdefault(f"{name}{each.evidence}", []).append(each.host)
    listed = sorted(hosts.items(), key=lambda item: -len(item[1]))
    yield from (f"{fold(names)}: {text}" for text, names in listed[:MOST_EVIDENCE])
    if len(listed) > MOST_EVIDENCE:
        yield f"and {len(listed) - MOST_EVIDENCE} more, see the report"
