"""Which hosts have their turn, in which order, and why. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hwcheck.fleet.sweep.levels import DAY_S, Level
from hwcheck.fleet.sweep.visits import PastVisit
from hwcheck.times import length_text

BAD = ("fail", "warn")
FLAPS_FROM, FLAPS_OF = 3, 10
"""A host whose outcome went bad so often, and was well between, within so many visits, flaps."""
LAST_VISITS = 5
"""The visits that tell how long the next one takes."""
LATE_SHARE = 0.5
"""From this share of ``at_latest`` on a host comes before every suspicion: these, night after
night, could keep it waiting for ever."""


@dataclass(frozen=True)
class Candidate:
    """A host that is due, why it stands where it does, and how long its visit may take."""

    host: str
    reason: str
    estimate_s: float


@dataclass(frozen=True)
class VisitHistory:
    """What is known of the hosts when a sweep begins. Times are UTC, naive.

    ``visits`` are those of each host, the oldest first. ``waiting`` are hosts that had their turn
    and were at work, and since when; ``first_seen`` is when each host was first in the inventory;
    ``back`` are hosts that were away (drained, down) in the sweep before and are not any more.
    """

    visits: Mapping[str, Sequence[PastVisit]]
    waiting: Mapping[str, datetime]
    first_seen: Mapping[str, datetime]
    back: Mapping[str, str]

    def measured(self, host: str, level: Level) -> PastVisit | None:
        """Return the last visit that measured the host, with the GPUs that it has, at a level."""
        for visit in reversed(self._as_it_is(host)):
            if visit.measured_at(level.name):
                return visit
        return None

    def age_s(self, host: str, level: Level, now: datetime) -> float:
        """Return how long ago the host was measured, or else first seen as it is; not below 0."""
        visit = self.measured(host, level)
        since = visit.at if visit else self.first_seen.get(host, now)
        as_it_is = self._as_it_is(host)
        if visit is None and len(as_it_is) < len(self.visits.get(host, ())):
            since = max(since, as_it_is[0].at)
        return max(0.0, (now - since).total_seconds())

    def _as_it_is(self, host: str) -> Sequence[PastVisit]:
        """Return the visits since the host has the GPUs that it has."""
        visits = self.visits.get(host, ())
        boards = next((visit.boards for visit in reversed(visits) if visit.boards), "")
        others = [n for n, visit in enumerate(visits) if visit.boards not in ("", boards)]
        return visits[others[-1] + 1 :] if others else visits

    def is_late(self, host: str, level: Level, now: datetime) -> bool:
        """Whether the host was not measured for so long that this is a finding."""
        return self.age_s(host, level, now) > level.at_latest_s


def candidates(
    hosts: Sequence[str], level: Level, past: VisitHistory, now: datetime
) -> tuple[Candidate, ...]:
    """Return the hosts that are due at a level, the first to be measured first.

    Before all stand those that wait since half of ``at_latest`` or longer, the longest first; then
    those that were at work when it was their turn, those under suspicion, and the others, each by
    how long ago they were measured, as in the inventory where that is alike.
    """
    rest_s = typical_s([visit for each in past.visits.values() for visit in each], level)
    ranked = []
    for place, host in enumerate(hosts):
        measured = past.measured(host, level)
        back = past.back.get(host, "")
        age_s = past.age_s(host, level, now)
        if measured and not back and age_s < level.due_s:
            continue
        suspicion = back or suspicion_of(past.visits.get(host, ()))
        if measured and age_s >= LATE_SHARE * level.at_latest_s:
            order, reason = 0, f"not measured for {age_text(age_s)}"
        elif not measured and age_s >= LATE_SHARE * level.at_latest_s:
            order, reason = 0, f"never measured, known for {age_text(age_s)}"
        elif host in past.waiting:
            order, reason = 1, "at work when it was its turn"
        elif suspicion:
            order, reason = 2, suspicion
        elif measured:
            order, reason = 3, f"measured {age_text(age_s)} ago"
        else:
            order, reason = 2, "never measured at this level" if past.visits.get(host) else "new"
        of_host_s = typical_s(past.visits.get(host, ()), level)
        estimate_s = of_host_s or rest_s or level.visit_s
        ranked.append(((order, -age_s, place), Candidate(host, reason, estimate_s)))
    return tuple(candidate for _, candidate in sorted(ranked, key=lambda each: each[0]))


def suspicion_of(visits: Sequence[PastVisit]) -> str:
    """Return why a host is under suspicion by its visits, the oldest first, or an empty text."""
    judged = [visit for visit in visits if visit.outcome in ("pass", *BAD)]
    if not judged:
        return ""
    bad = [visit.outcome in BAD for visit in judged[-FLAPS_OF:]]
    turns = sum(now and not before for before, now in zip([False, *bad], bad, strict=False))
    if turns >= FLAPS_FROM:
        return f"flaps: {turns} times bad in {len(bad)} runs"
    if len(judged) > 1 and judged[-1].boards and judged[-2].boards not in ("", judged[-1].boards):
        return "other GPUs than before"
    return {"fail": "failed last time", "warn": "warned last time"}.get(judged[-1].outcome, "")


def typical_s(visits: Sequence[PastVisit], level: Level) -> float:
    """Return the longest of the last visits of this very level in s; 0 where there is none."""
    of_level = [
        visit.duration_s
        for visit in visits
        if visit.level == level.name and visit.measured_at(level.name)
    ]
    return max(of_level[-LAST_VISITS:], default=0.0)


def age_text(age_s: float) -> str:
    """Return an age in words: ``3 d``, ``5 h``, ``12 m``."""
    if age_s >= DAY_S:
        return f"{timedelta(seconds=age_s).days} d"
    whole = max(60.0, age_s // 3600 * 3600 if age_s >= 3600 else age_s // 60 * 60)
    return length_text(whole)
