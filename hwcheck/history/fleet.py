"""A fleet over its nights: what came of every host on every night, and what is open since when."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from pathlib import Path

from hwcheck.history.views import History
from hwcheck.judge.records import OUTCOMES

MOST_NIGHTS = 365
NOTHING = 0
"""No run came to the host that night."""
CODES: Mapping[str, int] = {outcome: len(OUTCOMES) - at for at, outcome in enumerate(OUTCOMES)}
"""The code of each outcome: the worse, the greater."""
RECENT_NIGHTS = 30
MOST_CHECKS = 15
_DAY = re.compile(r"([0-9]{8})T")


@dataclass(frozen=True)
class FleetHost:
    """One host: its row of the grid, what came out last, and since when it is not well.

    ``since`` is the first night of those in a row, without one on which it passed, at the end of
    which it stands; None where it passed last, or gave warnings only. ``run`` is its last one;
    ``causes`` are what explains it, ``checks`` what complains, of this run.
    """

    name: str
    row: int
    outcome: str
    last: date
    since: date | None
    run: str
    reason: str
    causes: tuple[str, ...]
    checks: tuple[str, ...]


@dataclass(frozen=True)
class FleetNights:
    """``nights`` are days (UTC) in a row, ``runs`` the last run of each, empty where none began.

    ``grid`` has a byte for each host and night, row by row: the worst that came out, as a code.
    ``frequent`` are what complained most of late: check, hosts, nights, outcome.
    """

    nights: tuple[date, ...]
    runs: tuple[str, ...]
    hosts: tuple[FleetHost, ...]
    grid: bytes
    frequent: tuple[tuple[str, int, int, str], ...]

    def row(self, host: FleetHost) -> bytes:
        """Return what came of a host, night by night."""
        width = len(self.nights)
        return self.grid[host.row * width : (host.row + 1) * width]


def recent_runs(runs: Path) -> list[str]:
    """Return the run folders of the last MOST_NIGHTS nights: their names begin with the day.

    Empty where there is no such folder, or where the newest of the names begins with no day.
    """
    names = os.listdir(runs) if runs.is_dir() else []
    days = sorted({match[1] for name in names if (match := _DAY.match(name))})
    if not days:
        return []
    try:
        newest = datetime.strptime(days[-1], "%Y%m%d")  # noqa: DTZ007 - all are UTC
    except ValueError:
        return []
    first = f"{newest - timedelta(days=MOST_NIGHTS):%Y%m%d}"
    return [name for name in names if name >= first]


def fleet_of(history: History, most_nights: int = MOST_NIGHTS) -> FleetNights:
    """Return the fleet over the last nights of a history; its hosts and findings are read."""
    ((first, last),) = history.rows(
        "SELECT min(CAST(started AS DATE)), max(CAST(started AS DATE)) FROM hosts"
    )
    if first is None:
        return FleetNights((), (), (), b"", ())
    first = max(first, last - timedelta(days=most_nights - 1))
    nights = tuple(first + timedelta(days=n) for n in range((last - first).days + 1))
    names = [
        name
        for (name,) in history.rows(
            "SELECT DISTINCT host FROM hosts WHERE started >= $1 ORDER BY host", [first]
        )
    ]
    grid = _grid(history, nights, names)
    return FleetNights(
        nights=nights,
        runs=_runs(history, nights),
        hosts=tuple(_hosts(history, nights, grid)),
        grid=bytes(grid),
        frequent=tuple(_frequent(history, last)),
    )


def _grid(history: History, nights: Sequence[date], names: Sequence[str]) -> bytearray:
    ranks = " ".join(f"WHEN '{outcome}' THEN {code}" for outcome, code in CODES.items())
    cells = history.arrays(
        f"""
        SELECT dense_rank() OVER (ORDER BY host) - 1 AS place, night, worst FROM (
          SELECT host, date_diff('day', $1::DATE, CAST(started AS DATE)) AS night,
            max(CASE outcome {ranks} ELSE 0 END) AS worst
          FROM hosts WHERE started >= $1::DATE GROUP BY host, night)
        """,
        [nights[0]],
    )
    grid = bytearray(len(names) * len(nights))
    at = (cells["place"] * len(nights) + cells["night"]).tolist()
    for place, code in zip(at, cells["worst"].tolist(), strict=True):
        grid[place] = code
    return grid


def _runs(history: History, nights: Sequence[date]) -> tuple[str, ...]:
    """Return the last run of each night: of those with most hosts, and not of one host by hand."""
    by_night = dict(
        history.rows(
            "SELECT night, arg_max(run, (hosts, run)) FROM (SELECT run, count(*) AS hosts, "
            "CAST(any_value(started) AS DATE) AS night FROM hosts WHERE started >= $1 GROUP BY run)"
            " GROUP BY night",
            [nights[0]],
        )
    )
    return tuple(by_night.get(night, "") for night in nights)


def _hosts(history: History, nights: Sequence[date], grid: bytearray) -> Sequence[FleetHost]:
    newest = history.rows(
        "SELECT host, arg_max(outcome, (started, run)), max(CAST(started AS DATE)), "
        "arg_max(run, (started, run)), arg_max(coalesce(reason, ''), (started, run)), "
        "arg_max(coalesce(causes, []), (started, run)) "
        "FROM hosts WHERE started >= $1 GROUP BY host ORDER BY host",
        [nights[0]],
    )
    bad = [(host, run) for host, outcome, _, run, _, _ in newest if CODES[outcome] > CODES["warn"]]
    complaints = _complaints(history, bad)
    width = len(nights)
    made = []
    for row, (host, outcome, last, run, reason, causes) in enumerate(newest):
        cells = grid[row * width : (row + 1) * width]
        since = _since(cells, nights) if CODES[outcome] > CODES["warn"] else None
        checks = complaints.get(host, ())
        made.append(FleetHost(host, row, outcome, last, since, run, reason, tuple(causes), checks))
    return made


def _complaints(history: History, hosts: Sequence[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Return the checks that failed, or could not be measured, on hosts in these runs of theirs."""
    if not hosts:
        return {}
    rows = history.rows(
        "SELECT f.host, list(DISTINCT check_id ORDER BY check_id) FROM findings AS f JOIN "
        "(SELECT unnest($1) AS host, unnest($2) AS run) AS last USING (host, run) "
        "WHERE outcome IN ('fail', 'inconclusive') AND waived IS NULL AND check_id <> '' "
        "GROUP BY f.host",
        [[host for host, _ in hosts], [run for _, run in hosts]],
    )
    return {host: tuple(checks) for host, checks in rows}


def _since(cells: bytearray, nights: Sequence[date]) -> date:
    """Return the first night of those at the end on which a host was not well."""
    since = len(nights) - 1
    for place in range(len(nights) - 1, -1, -1):
        if NOTHING < cells[place] <= CODES["warn"]:
            break
        if cells[place]:
            since = place
    return nights[since]


def _frequent(history: History, last: date) -> Sequence[tuple[str, int, int, str]]:
    return [
        (check, hosts, nights, outcome)
        for check, hosts, nights, outcome in history.rows(
            "SELECT check_id, count(DISTINCT host) AS hosts, "
            "count(DISTINCT CAST(started AS DATE)) AS nights, "
            "if(bool_or(outcome = 'fail'), 'fail', 'warn') AS worst FROM findings "
            "WHERE started >= $1 AND outcome IN ('fail', 'warn') AND waived IS NULL "
            "AND check_id <> '' GROUP BY check_id "
            f"ORDER BY worst, hosts DESC, nights DESC, check_id LIMIT {MOST_CHECKS}",
            [last - timedelta(days=RECENT_NIGHTS - 1)],
        )
    ]
