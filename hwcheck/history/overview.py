"""What the runs of a history came to: one record for each run, or for each host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hwcheck.history.events import Event, events
from hwcheck.history.trend import Asked, default_subject
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


def host_lines(
    history: History, hosts: Sequence[str] = (), since: datetime | None = None
) -> list[HostLine]:
    """Return the hosts by name; with ``hosts`` these only."""
    chosen = ["(?::TIMESTAMP IS NULL OR started >= ?)"]
    chosen += ["list_contains(?, host)"] if hosts else []
    where, parameters = " AND ".join(chosen), [since, since, *([list(hosts)] if hosts else [])]
    flaps: dict[str, list[str]] = {}
    for host, check, subject, times in history.rows(
        f"""
        WITH nights AS (
          SELECT host, run, row_number() OVER (PARTITION BY host ORDER BY started, run) AS night
          FROM hosts WHERE {where}
        ), bad AS (
          SELECT DISTINCT f.host, check_id, subject, night FROM findings AS f
          JOIN nights USING (run, host) WHERE f.outcome IN ('fail', 'warn')
        ), begun AS (
          SELECT *, night - lag(night) OVER (
            PARTITION BY host, check_id, subject ORDER BY night) AS after FROM bad
        )
        SELECT host, check_id, subject, count(*) FROM begun WHERE after IS NULL OR after > 1
        GROUP BY ALL HAVING count(*) >= {FLAPS_FROM} ORDER BY host, count(*) DESC, 2, 3
        """,
        parameters,
    ):
        of = "" if subject == "node" else f" of {line(subject, 60)}"
        flaps.setdefault(host, []).append(f"{line(check, 60) or 'visit'}{of} ({times} times)")
    of_host: dict[str, list[Event]] = {}
    for event in events(history, hosts, since):
        of_host.setdefault(event.host, []).append(event)
    return [
        HostLine(
            *(host, runs, green, red, outcome, last_run, last_green, last_red),
            flaps=tuple(flaps.get(host, ())),
            events=tuple(of_host.get(host, ())),
        )
        for host, runs, green, red, outcome, last_run, last_green, last_red in history.rows(
            f"""
            SELECT host, count(*), count(*) FILTER (outcome IN {GREEN}),
              count(*) FILTER (outcome = 'fail'), arg_max(outcome, (started, run)), max(started),
              max(started) FILTER (outcome IN {GREEN}), max(started) FILTER (outcome = 'fail')
            FROM hosts WHERE {where} GROUP BY host ORDER BY host
            """,
            parameters,
        )
    ]


def last_values(
    history: History, asked: Asked, hosts: Sequence[str] = (), since: datetime | None = None
) -> dict[str, list[float]]:
    """Return a metric of each host run by run, the newest last: the median over its subjects."""
    values: dict[str, list[float]] = {}
    for host, value in history.rows(
        """
        SELECT host, median(value) FROM samples
        WHERE check_id = $1 AND metric = $2 AND size_bytes IS NULL AND isfinite(value)
          AND ($3 = '' OR subject = $3) AND (len($4) = 0 OR list_contains($4, host))
          AND ($5::TIMESTAMP IS NULL OR started >= $5)
        GROUP BY host, started, run ORDER BY started, run
        """,
        [asked.check, asked.metric, default_subject(history, asked), list(hosts), since],
    ):
        values.setdefault(host, []).append(value)
    return values
