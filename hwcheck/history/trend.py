"""One metric over the runs: of a host or a GPU, beside all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from hwcheck.errors import UsageError
from hwcheck.fold import fold
from hwcheck.history.events import ALWAYS, Name, former_names, gpus_of, stays
from hwcheck.history.names import name_among, refuse_unknown_hosts
from hwcheck.history.views import History
from hwcheck.text import line

DEFAULT_LEG = "leg default"
MARKED = ("name", "driver", "NCCL", "torch")


@dataclass(frozen=True)
class TrendMetric:
    """What a trend is of: a check's metric, its unit, and one subject or any (an empty text).

    ``size_bytes`` is that of a message, None for the figure at a leg's largest. A metric that legs
    have is that of ``leg default`` unless a subject is named: legs are not to be drawn as one.
    """

    check: str
    metric: str
    unit: str
    subject: str = ""
    size_bytes: int | None = None

    @property
    def name(self) -> str:
        """The metric's whole name."""
        return f"{self.check}.{self.metric}"


class Point(NamedTuple):
    """One value."""

    started: datetime
    run: str
    host: str
    subject: str
    value: float


class Band(NamedTuple):
    """All hosts in one run: the 10th, 50th and 90th percentile of their values."""

    started: datetime
    low: float
    middle: float
    high: float


class Mark(NamedTuple):
    """A change of software or of a board between two runs of a host."""

    started: datetime
    host: str
    what: str
    before: str
    after: str

    def text(self) -> str:
        """Say it in a line."""
        change = f"{line(self.before, 60) or 'none'} -> {line(self.after, 60) or 'none'}"
        return f"{self.started:%Y-%m-%d} {line(self.host, 60)}: {self.what} {change}"


@dataclass(frozen=True)
class Trend:
    """A metric over time. ``fail_at`` and ``warn_at`` are today's borders, in its unit."""

    asked: TrendMetric
    about: str
    points: tuple[Point, ...]
    bands: tuple[Band, ...]
    marks: tuple[Mark, ...]
    fail_at: float | None = None
    warn_at: float | None = None
    limit: str = ""


def metric_named(
    history: History, name: str, subject: str = "", size: int | None = None
) -> TrendMetric:
    """Return what ``busbw_gbps`` or ``all_reduce.busbw_gbps`` means.

    Raises UsageError, with the nearest name, for one that no run measured as a number.
    """
    metric = name.rpartition(".")[2]
    those = _those(_measured(history, list(history.folders)[-1:], metric), name)  # as a rule
    if not those:
        metrics = _measured(history, list(history.folders))
        those = _those(metrics, name)
    if not those:
        names = [full for each in metrics for full in (f"{each[0]}.{each[1]}", each[1])]
        name_among("metric", name, dict.fromkeys(names))
    if len(those) > 1:
        choice = ", ".join(f"{check}.{metric}" for check, metric, *_ in those)
        raise UsageError(f"{line(name, 80)}: several checks have it; say one of {line(choice)}")
    check, metric, unit, of_legs = those[0]
    return TrendMetric(check, metric, unit, subject or (DEFAULT_LEG if of_legs else ""), size)


def _measured(
    history: History, runs: Sequence[str], metric: str = ""
) -> list[tuple[str, str, str, bool]]:
    """Return of the numbers of these runs the metric (all, or one), and whether legs have it."""
    return [
        (check, metric, unit, of_legs)
        for check, metric, unit, of_legs in history.rows(
            f"SELECT check_id, metric, unit, bool_or(subject = '{DEFAULT_LEG}') FROM samples "
            "WHERE list_contains($1, run) AND value IS NOT NULL "
            f"{'AND metric = $2 ' if metric else ''}GROUP BY ALL ORDER BY ALL",
            [runs, metric] if metric else [runs],
        )
    ]


def _those(
    metrics: Sequence[tuple[str, str, str, bool]], name: str
) -> list[tuple[str, str, str, bool]]:
    return [each for each in metrics if name in (each[1], f"{each[0]}.{each[1]}")]


def gpus_named(history: History, name: str) -> list[str]:
    """Return the ids of the GPUs with this serial or UUID. Raises UsageError with the nearest."""
    ids = [
        row[0]
        for row in history.rows(
            "SELECT DISTINCT gpu FROM gpus WHERE $1 IN (gpu, uuid, serial) AND gpu <> '' "
            "ORDER BY gpu",
            [name],
        )
    ]
    if not ids:
        rows = history.rows("SELECT DISTINCT uuid, serial FROM gpus")
        name_among("GPU", name, {text for row in rows for text in row if text})
    return ids


def trend(
    history: History,
    asked: TrendMetric,
    host: str = "",
    gpus: Sequence[str] = (),
    since: datetime | None = None,
) -> Trend:
    """Return a metric over the runs: of a host, of GPUs, or of all hosts as a band only."""
    conditions: dict[str, object] = {"check_id = ?": asked.check, "metric = ?": asked.metric}
    if asked.size_bytes is not None:
        conditions["size_bytes = ?"] = asked.size_bytes
    if asked.subject:
        conditions["subject = ?"] = asked.subject
    if since is not None:  # files of other runs are not opened
        conditions["filename IN (SELECT filename FROM samples_files WHERE started >= ?)"] = since
    no_size = " AND size_bytes IS NULL" if asked.size_bytes is None else ""
    where = f"{' AND '.join(conditions)}{no_size}"
    names, steps = _names_and_steps(history, host) if host else ([], [])
    of_it = {"list_contains(?, gpu)": list(gpus)} if gpus else {}
    if host:
        of_it["list_contains(?, host)"] = [name.called for name in names]
    rows = history.rows(  # one pass for both; what is no number is left out last, which is quicker
        f"""
        SELECT started, run, quantiles, of_it FROM (
          SELECT filename, quantile_cont(number, [0.1, 0.5, 0.9]) AS quantiles,
            list((host, subject, number)) FILTER ({" OR ".join(of_it) or "false"}) AS of_it
          FROM (
            SELECT *, CASE WHEN isfinite(value) THEN value END AS number
            FROM samples_by_file WHERE {where}
          ) GROUP BY filename
        ) JOIN samples_files USING (filename) WHERE quantiles IS NOT NULL ORDER BY started, run
        """,
        [*of_it.values(), *conditions.values()],
    )
    if not rows:
        of = f" of {asked.subject}" if asked.subject else ""
        raise UsageError(f"no run has a number of {asked.name}{of}")
    points = sorted(
        Point(started, run, host or of_host, subject, value)
        for started, run, _, values in rows
        for of_host, subject, value in values or ()
        if value is not None
        and (
            not host
            or any(each.called == of_host and each.since <= started < each.until for each in names)
        )
    )
    if host and not points:
        refuse_unknown_hosts(history, [host])
    if (host or gpus) and not points:
        raise UsageError(f"{line(host or 'this GPU', 80)} has no {asked.name} in these runs")
    if not host:
        names = [Name(of, of, *ALWAYS) for of in sorted({point.host for point in points})]
        steps = _steps(history, names)
    about = line(host, 80) or (f"GPU {line(' '.join(gpus), 120)}" if gpus else "all hosts")
    return Trend(
        asked,
        about,
        tuple(points),
        tuple(Band(started, *quantiles) for started, _, quantiles, _ in rows),
        tuple(_marks(history, names, steps, points, since)),
    )


def _names_and_steps(history: History, host: str) -> tuple[list[Name], list[tuple[Any, ...]]]:
    """Return what a host was called in the history and when, the newest first, and its steps.

    Whoever was there in the first run and always had the same boards had no other name: then, which
    is the rule, ``hosts`` is read once.
    """
    names = [Name(host, host, *ALWAYS)]
    steps = _steps(history, names)
    if any(may_be_renamed for *_, may_be_renamed in steps):
        former = former_names(stays(history)).get(host, names)
        if former != names:
            names, steps = former, _steps(history, former)
    return names, steps


def _steps(history: History, names: Sequence[Name]) -> list[tuple[Any, ...]]:
    """Return the first run of hosts (none named: of all), and those on which something changed.

    The last column says of the first run whether it is not that of the history, and of the others
    whether there are other boards.
    """
    columns = [list(column) for column in zip(*names, strict=True)] or [[]] * 4
    return history.rows(
        """
        WITH names AS (
          SELECT unnest($1) AS host, unnest($2) AS called, unnest($3) AS since, unnest($4) AS until
        ), steps AS (
          SELECT *, lag(run) OVER w AS before, lag(called) OVER w AS called_before,
            lag(driver) OVER w AS driver_before, lag(nccl) OVER w AS nccl_before,
            lag(torch) OVER w AS torch_before, lag(boards) OVER w AS boards_before
          FROM (SELECT coalesce(names.host, hosts.host) AS host, hosts.host AS called,
              run, started, driver, nccl, torch, boards
            FROM hosts LEFT JOIN names ON hosts.host = called
              AND started >= names.since AND started < until
            WHERE state = 'reported' AND (len($1) = 0 OR names.host IS NOT NULL))
          WINDOW w AS (PARTITION BY host ORDER BY started, run)
        )
        SELECT started, host, run, before, called_before, called, driver_before, driver,
          nccl_before, nccl, torch_before, torch,
          CASE WHEN before IS NULL THEN started > try_cast($5 AS TIMESTAMP)
            ELSE boards IS DISTINCT FROM boards_before END
        FROM steps WHERE before IS NULL OR called <> called_before
          OR driver IS DISTINCT FROM driver_before OR nccl IS DISTINCT FROM nccl_before
          OR torch IS DISTINCT FROM torch_before OR boards IS DISTINCT FROM boards_before
        ORDER BY started, host
        """,
        [*columns, history.started],
    )


def _marks(
    history: History,
    names: Sequence[Name],
    steps: Sequence[tuple[Any, ...]],
    points: Sequence[Point],
    since: datetime | None,
) -> list[Mark]:
    """Return what changed on hosts, equal changes as one; of boards only where hosts are named."""
    rows = [row for row in steps if row[3] is not None and (since is None or row[0] >= since)]
    sides = [((row[4], row[3]), (row[5], row[2])) for row in rows]
    gpus = gpus_of(history, [side for both in sides for side in both]) if names else {}
    slots = {point.subject for point in points}
    slots &= {gpu["slot"] for of_host in gpus.values() for gpu in of_host}
    marks: dict[Mark, list[str]] = {}
    for (started, host, _, _, *values, _), both in zip(rows, sides, strict=True):
        changes = list(zip(MARKED, values[::2], values[1::2], strict=True))
        was, now = ({gpu["slot"]: gpu for gpu in gpus.get(side, ())} for side in both)
        for slot in sorted({*was, *now}):
            old, new = was.get(slot, {}), now.get(slot, {})
            if not slots or slot in slots:
                changes.append((f"board of {slot}", old.get("gpu"), new.get("gpu")))
                changes.append((f"VBIOS of {slot}", old.get("vbios"), new.get("vbios")))
        for what, old_word, new_word in changes:
            if old_word != new_word:
                mark = Mark(started, "", what, old_word or "", new_word or "")
                marks.setdefault(mark, []).append(host)
    return [mark._replace(host=fold(of)) for mark, of in marks.items()]
