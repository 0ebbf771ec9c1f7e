"""Faults that the driver reports again and again, night after night. Pure.

One visit counts what the kernel log holds since the node booted: whoever restarts a node after each
fault has a clean one every morning. Here the incidents of former nights count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from hwcheck.checks.xid import JUDGED, OLD
from hwcheck.text import count, line
from hwcheck.times import length_text

METRICS = (*JUDGED, OLD)
"""What the check ``xid`` counts of faults that ask for something."""

WINDOW = timedelta(days=28)
OFTEN = 3
"""A node with so many incidents within the window is one that repairs did not hold on. That nodes
fail unevenly, and those that fail again are known by how often they did, is in Kokolis et al.,
Revisiting Reliability in Large-Scale Machine Learning Research Clusters (HPCA 2025); the numbers
are ours."""


@dataclass(frozen=True)
class FaultCount:
    """How many such events of a subject (``gpu3 xid 79``) a host's log held in a run.

    ``at`` is when the run began (UTC, naive). A host without any has 0 of one subject.
    """

    host: str
    at: datetime
    subject: str
    events: int


@dataclass(frozen=True)
class Incident:
    """What was new in the log of a host at a time, of whatever GPUs: a burst is one incident."""

    at: datetime
    subjects: tuple[str, ...]

    def text(self) -> str:
        """Say it: ``2026-03-01 gpu3 xid 79``."""
        more = f" and {len(self.subjects) - 1} more" if len(self.subjects) > 1 else ""
        return f"{self.at:%Y-%m-%d} {line(self.subjects[0], 60)}{more}"


def incidents(counted: Iterable[FaultCount]) -> dict[str, list[Incident]]:
    """Return the incidents of each host, the oldest first.

    New is what a log holds more of than in the run before. A log that holds less of it, after a
    boot or since it has lost its beginning, tells nothing new.
    """
    runs: dict[str, dict[datetime, dict[str, int]]] = {}
    for each in counted:
        of_run = runs.setdefault(each.host, {}).setdefault(each.at, {})
        of_run[each.subject] = of_run.get(each.subject, 0) + each.events
    made: dict[str, list[Incident]] = {}
    for host, of_host in runs.items():
        before: Mapping[str, int] = {}
        for at, now in sorted(of_host.items()):
            new = sorted(subject for subject in now if now[subject] > before.get(subject, 0))
            if new:
                made.setdefault(host, []).append(Incident(at, tuple(new)))
            before = now
    return made


def repeated(counted: Iterable[FaultCount], now: datetime) -> dict[str, str]:
    """Return the hosts with many incidents within the window, each with the nights, in a line."""
    made = {}
    for host, of_host in incidents(counted).items():
        recent = [each for each in of_host if now - WINDOW <= each.at <= now]
        if len(recent) >= OFTEN:
            nights = ", ".join(each.text() for each in recent[-OFTEN:])
            days = length_text(WINDOW.total_seconds())
            made[host] = line(f"{count(len(recent), 'incident')} in {days}: {nights}")
    return made
