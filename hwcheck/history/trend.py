"""One metric over the runs: of a host or a GPU, beside all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from hwcheck.errors import UsageError
from hwcheck.fold import fold
from hwcheck.history.events import gpus_of
from hwcheck.history.names import one_known
from hwcheck.history.views import History
from hwcheck.text import line

DEFAULT_LEG = "leg default"
SOFTWARE = ("driver", "NCCL", "torch")


@dataclass(frozen=True)
class Asked:
    """What a trend is of: a check's metric, its unit, and one subject or any (an empty text).

    ``size_bytes`` is that of a message, None for the figure at a leg's largest.
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
    """One value. ``gpu`` is the GPU's id, None where the subject is none."""

    started: datetime
    run: str
    host: str
    subject: str
    gpu: str | None
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

    asked: Asked
    about: str
    points: tuple[Point, ...]
    bands: tuple[Band, ...]
    marks: tuple[Mark, ...]
    fail_at: float | None = None
    warn_at: float | None = None
    limit: str = ""


def metric_named(history: History, name: str, subject: str = "", size: int | None = None) -> Asked:
    """Return what ``busbw_gbps`` or ``all_reduce.busbw_gbps`` means.

    Raises UsageError, with the nearest name, for one that no run measured as a number.
    """
    known = _measured(history, newest=True)
    if not _those(known, name):
        known = _measured(history, newest=False)
    those = _those(known, name)
    if not those:
        names = [full for check, metric, _ in known for full in (f"{check}.{metric}", metric)]
        one_known("metric", name, dict.fromkeys(names))
    if len(those) > 1:
        choice = ", ".join(f"{check}.{metric}" for check, metric, _ in those)
        raise UsageError(f"{line(name, 80)}: several checks have it; say one of {line(choice)}")
    return Asked(*those[0], subject=subject, size_bytes=size)


def _measured(history: History, *, newest: bool) -> list[tuple[str, str, str]]:
    """Return check, metric and unit of all numbers, of the newest run or of all."""
    run = history.rows("SELECT arg_max(run, (started, run)) FROM hosts")[0][0]
    where, parameters = ("run = ?", [run]) if newest else ("true", [])
    return [
        (check, metric, unit)
        for check, metric, unit in history.rows(
            f"SELECT DISTINCT check_id, metric, unit FROM samples WHERE {where} "
            "AND value IS NOT NULL ORDER BY ALL",
            parameters,
        )
    ]


def _those(known: Sequence[tuple[str, str, str]], name: str) -> list[tuple[str, str, str]]:
    return [each for each in known if name in (each[1], f"{each[0]}.{each[1]}")]


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
        one_known("GPU", name, {text for row in rows for text in row if text})
    return ids


def trend(
    history: History,
    asked: Asked,
    host: str = "",
    gpus: Sequence[str] = (),
    since: datetime | None = None,
) -> Trend:
    """Return a metric over the runs: of a host, of GPUs, or of all hosts as a band only."""
    of_metric = [
        "check_id = $1",
        "metric = $2",
        "size_bytes IS NOT DISTINCT FROM $3",
        "($4::TIMESTAMP IS NULL OR started >= $4)",
        "isfinite(value)",
    ]
    parameters = [asked.check, asked.metric, asked.size_bytes, since]
    subject = asked.subject or default_subject(history, asked)
    if subject:
        of_metric.append("subject = $5")
        parameters.append(subject)
    where = " AND ".join(of_metric)
    bands = history.rows(
        "SELECT started, quantile_cont(value, 0.1), median(value), quantile_cont(value, 0.9) "
        f"FROM samples WHERE {where} GROUP BY started ORDER BY started",
        parameters,
    )
    if not bands:
        raise UsageError(
            f"no run has a number of {asked.name}{' of ' + subject if subject else ''}"
        )
    points: list[Point] = []
    if host or gpus:
        place = len(parameters) + 1
        of_it, value = (
            (f"host = ${place}", host) if host else (f"list_contains(${place}, gpu)", gpus)
        )
        points = [
            Point(*row)
            for row in history.rows(
                "SELECT started, run, host, subject, gpu, value FROM samples "
                f"WHERE {where} AND {of_it} ORDER BY started, run, host, subject",
                [*parameters, value],
            )
        ]
        if not points:
            raise UsageError(f"{line(host or 'this GPU', 80)} has no {asked.name} in these runs")
    hosts = sorted({point.host for point in points})
    about = line(host, 80) or (f"GPU {line(' '.join(gpus), 120)}" if gpus else "all hosts")
    return Trend(
        Asked(asked.check, asked.metric, asked.unit, subject, asked.size_bytes),
        about,
        tuple(points),
        tuple(Band(*row) for row in bands),
        tuple(_marks(history, hosts, points, since)),
    )


def default_subject(history: History, asked: Asked) -> str:
    """Return ``leg default`` for a metric that legs have: legs are not to be drawn as one."""
    rows = history.rows(
        "SELECT 1 FROM samples WHERE check_id = $1 AND metric = $2 AND subject = $3 LIMIT 1",
        [asked.check, asked.metric, DEFAULT_LEG],
    )
    return DEFAULT_LEG if rows else ""


def _marks(
    history: History, hosts: Sequence[str], points: Sequence[Point], since: datetime | None
) -> list[Mark]:
    """Return what changed on these hosts (none named: on all), equal changes as one."""
    slots = {point.subject for point in points if point.gpu}
    rows = history.rows(
        """
        WITH steps AS (
          SELECT *, lag(run) OVER w AS before, lag(driver) OVER w AS driver_before,
            lag(nccl) OVER w AS nccl_before, lag(torch) OVER w AS torch_before,
            lag(boards) OVER w AS boards_before
          FROM (SELECT host, run, started, driver, nccl, torch, boards FROM hosts
            WHERE state = 'reported' AND (len($1) = 0 OR list_contains($1, host)))
          WINDOW w AS (PARTITION BY host ORDER BY started, run)
        )
        SELECT started, host, run, before, driver_before, driver, nccl_before, nccl,
          torch_before, torch
        FROM steps WHERE before IS NOT NULL AND ($2::TIMESTAMP IS NULL OR started >= $2) AND (
          driver IS DISTINCT FROM driver_before OR nccl IS DISTINCT FROM nccl_before
          OR torch IS DISTINCT FROM torch_before OR boards IS DISTINCT FROM boards_before)
        ORDER BY started, host
        """,
        [list(hosts), since],
    )
    gpus = gpus_of(history, [(row[1], run) for row in rows for run in row[2:4]]) if hosts else {}
    marks: dict[Mark, list[str]] = {}
    for started, host, run, before, *values in rows:
        changes = list(zip(SOFTWARE, values[::2], values[1::2], strict=True))
        was, now = ({gpu["slot"]: gpu for gpu in gpus.get((host, of), ())} for of in (before, run))
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
