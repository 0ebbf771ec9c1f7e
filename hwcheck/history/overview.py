"""What the runs of a history came to: one record for each run, or for each host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hwcheck.history.events import NAMED, Event, events_of, renamed, stays
from hwcheck.history.trend import TrendMetric
from hwcheck.history.views import History
from hwcheck.text import line

FLAPS_FROM = 3
"""What went bad so often, and was well between, flaps."""
GREEN = ("pass", "warn")
"""Outcomes of a host that nothing failed on, and of which everything was measured."""


@dataclass(frozen=True)
class RunLine:
    """One run; hosts are counted by their outcome. Times are UTC."""

    run: str
    started: datetime
    outcome: str
    profile: str
    hosts: int
    passed: int
    warned: int
    failed: int
    inconclusive: int


@dataclass(frozen=True)
class HostLine:
    """One host over the runs: when it was last green and last red, and how often of how many.

    ``flaps`` are checks with their subjects that went bad several times, with how often;
    ``events`` what became of its boards and its name.
    """

    host: str
    runs: int
    green: int
    red: int
    outcome: str
    last_run: datetime
    last_green: datetime | None
    last_red: datetime | None
    flaps: tuple[str, ...]
    events: tuple[Event, ...]


def run_lines(history: History, since: datetime | None = None) -> list[RunLine]:
    """Return the runs, the newest last."""
    return [
        RunLine(*row)
        for row in history.rows(
            "SELECT run, started, outcome, profile, hosts, passed, warned, failed, inconclusive "
            "FROM runs WHERE ?::TIMESTAMP IS NULL OR started >= ? ORDER BY started, run",
            [since, since],
        )
    ]


LINES = f"""{NAMED}, lines AS (
  SELECT host, called, run, started, outcome FROM named
  WHERE ($5::TIMESTAMP IS NULL OR started >= $5) AND (len($6) = 0 OR list_contains($6, host))
)
"""


def host_lines(
    history: History, hosts: Sequence[str] = (), since: datetime | None = None
) -> list[HostLine]:
    """Return the hosts by their present names; with ``hosts`` these only."""
    every_stay = stays(history)
    parameters = [*renamed(every_stay), since, list(hosts)]
    flaps: dict[str, list[str]] = {}
    for host, check, subject, times in history.rows(
        f"""
        WITH {LINES}, bad AS (
          SELECT DISTINCT lines.host, f.run, check_id, subject FROM findings AS f
          JOIN lines ON f.run = lines.run AND f.host = called WHERE f.outcome IN ('fail', 'warn')
        ), often AS (
          SELECT host, check_id, subject FROM bad GROUP BY ALL HAVING count(*) >= {FLAPS_FROM}
        ), nights AS (
          SELECT host, run, row_number() OVER (PARTITION BY host ORDER BY started, run) AS night
          FROM lines SEMI JOIN often USING (host)
        ), begun AS (
          SELECT *, night - lag(night) OVER (
            PARTITION BY host, check_id, subject ORDER BY night) AS after
          FROM bad SEMI JOIN often USING (host, check_id, subject) JOIN nights USING (host, run)
        )
        SELECT host, check_id, subject, count(*) FROM begun WHERE after IS NULL OR after > 1
        GROUP BY ALL HAVING count(*) >= {FLAPS_FROM} ORDER BY host, count(*) DESC, 2, 3
        """,
        parameters,
    ):
        of = "" if subject == "node" else f" of {line(subject, 60)}"
        flaps.setdefault(host, []).append(f"{line(check, 60) or 'visit'}{of} ({times} times)")
    of_host: dict[str, list[Event]] = {}
    for event in events_of(every_stay):
        if since is None or event.started >= since:
            of_host.setdefault(event.host, []).append(event)
    return [
        HostLine(
            *(host, runs, green, red, outcome, last_run, last_green, last_red),
            flaps=tuple(flaps.get(host, ())),
            events=tuple(of_host.get(host, ())),
        )
        for host, runs, green, red, outcome, last_run, last_green, last_red in history.rows(
            f"""
            WITH {LINES}
            SELECT host, count(*), count(*) FILTER (outcome IN {GREEN}),
              count(*) FILTER (outcome = 'fail'), arg_max(outcome, started), max(started),
              max(started) FILTER (outcome IN {GREEN}), max(started) FILTER (outcome = 'fail')
            FROM lines GROUP BY host ORDER BY host
            """,
            parameters,
        )
    ]


def last_values(
    history: History, asked: TrendMetric, hosts: Sequence[str] = (), since: datetime | None = None
) -> dict[str, list[float]]:
    """Return a metric of each host run by run, the newest last: the median over its subjects."""
    values: dict[str, list[float]] = {}
    for host, value in history.rows(
        f"""
        WITH {LINES}
        SELECT any_value(lines.host), median(value) FROM samples
        JOIN lines ON samples.run = lines.run AND samples.host = called
        WHERE check_id = $7 AND metric = $8 AND size_bytes IS NULL AND isfinite(value)
          AND ($9 = '' OR subject = $9)
        GROUP BY lines.host, lines.run, lines.started ORDER BY lines.started, lines.run
        """,
        [
            *renamed(stays(history)),
            *(since, list(hosts), asked.check, asked.metric, asked.subject),
        ],
    ):
        values.setdefault(host, []).append(value)
    return values
