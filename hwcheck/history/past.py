"""What former runs measured, as judging takes it: ``judge.past.Past`` of the samples' files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hwcheck.contract.check import Check
from hwcheck.contract.wire import COLLECTIVES
from hwcheck.history.dataset import EXERCISE
from hwcheck.history.events import ALWAYS, Name, gpus_of
from hwcheck.history.rows import SECOND_VISIT
from hwcheck.history.views import History
from hwcheck.judge.legs import LEAST_BYTES, PLAUSIBLE_BUSBW_GBPS
from hwcheck.judge.past import Past, PastRun, PastSeries, Setup, Setups, asked_of, held
from hwcheck.judge.units import UNITS

T = TypeVar("T")

MOST_VISITS = 10_000
"""So many hosts times runs are read at once: some 2 million figures in 40 MB."""

VISITS = """
CREATE OR REPLACE TEMP TABLE visits AS
WITH names AS (
  SELECT unnest($1) AS now, unnest($2) AS called, unnest($3) AS since, unnest($4) AS until
)
SELECT now, host, run, started, coalesce(profile, '') AS profile,
  coalesce(nullif(options, ''), '{}') AS options,
  coalesce(driver, '') AS driver, coalesce(torch, '') AS torch,
  dense_rank() OVER (ORDER BY now)::INTEGER - 1 AS place,
  dense_rank() OVER (ORDER BY started, run)::INTEGER - 1 AS col,
  dense_rank() OVER (ORDER BY now, driver, torch, boards)::INTEGER - 1 AS state
FROM hosts JOIN names ON host = called AND started >= since AND started < until
WHERE started < try_cast($5 AS TIMESTAMP)
"""
"""The hosts in former runs, whatever they were called; of one ``state`` all of its software and
boards are the same."""

KINDS = f"""
CREATE OR REPLACE TEMP TABLE kinds AS
WITH held AS (SELECT unnest($1) AS check_id, unnest($2) AS metric, unnest($3) AS unit,
  unnest($4) AS lowest, unnest($5) AS highest)
SELECT *, row_number() OVER ()::INTEGER - 1 AS kind FROM (
  SELECT DISTINCT check_id, metric, subject, coalesce(size_bytes, 0) AS size_bytes,
    coalesce(library, '') AS library, unit, lowest, highest
  FROM samples JOIN held USING (check_id, metric, unit)
  WHERE CASE WHEN check_id IN {COLLECTIVES}
    THEN size_bytes >= {LEAST_BYTES} AND NOT {EXERCISE.format(table="samples")}
      AND NOT ends_with(subject, '{SECOND_VISIT}')
    ELSE size_bytes IS NULL END)
"""
"""What is held of a host, and the library that moved the data. A fleet has some hundreds of them:
figures are read with the number of theirs, which takes a quarter of the time and memory."""

FIGURES = """
SELECT place, col, kind, value
FROM samples AS s
JOIN kinds AS k ON s.check_id = k.check_id AND s.metric = k.metric AND s.subject = k.subject
  AND coalesce(s.size_bytes, 0) = k.size_bytes AND coalesce(s.library, '') = k.library
  AND s.unit = k.unit
JOIN visits ON s.host = visits.host AND s.run = visits.run
WHERE s.started >= $1 AND s.started < $2 AND value BETWEEN lowest AND highest
  AND value_text IS NULL
"""


def past_of(
    history: History, names: Sequence[Name], started: str, checks: Mapping[str, Check]
) -> Past | None:
    """Return the figures of hosts, under the names that they had, in the runs before ``started``.

    They equal what ``judge.past.figures`` gives of each of those runs, but for samples of checks
    that did not come to their end: of these the history does not know. None without such a run.
    """
    if not history.folders or not names:
        return None
    history.rows(VISITS, [*map(list, zip(*names, strict=True)), started])
    runs = history.rows(
        "SELECT run, started, any_value(profile), any_value(options) FROM visits GROUP BY ALL "
        "ORDER BY started, run"
    )
    hosts = [host for (host,) in history.rows("SELECT DISTINCT now FROM visits ORDER BY now")]
    history.rows(KINDS, list(map(list, zip(*_held(checks), strict=True))))
    kinds = history.rows(
        "SELECT check_id, metric, subject, size_bytes, library FROM kinds ORDER BY kind"
    )
    series, series_of_kind = _coded(kind[:4] for kind in kinds)
    manners, manner_of_kind = _coded(
        _manner(check, of, lib, load=checks[check].load) for check, _, of, _, lib in kinds
    )
    states = _states(history)
    visits = history.arrays("SELECT place, col, state FROM visits")
    state_of = np.full((len(hosts), len(runs)), -1, np.int32)
    state_of[visits["place"], visits["col"]] = visits["state"]

    setups: dict[Setup, int] = {}
    setup_codes = np.full((len(manners), len(states)), -1, np.int32)
    of_row: list[PastSeries] = []
    row_of = np.full(len(hosts) * len(series), -1, np.int32)
    values = np.empty((0, len(runs)))
    setup_of = np.empty((0, len(runs)), np.int32)
    at_once = max(1, MOST_VISITS // len(names))
    for first in range(0, len(runs), at_once):
        until = runs[first + at_once][1] if first + at_once < len(runs) else ALWAYS[1]
        figures = history.arrays(FIGURES, [runs[first][1], until])
        place, col, kind = (figures[name] for name in ("place", "col", "kind"))
        under = manner_of_kind[kind], state_of[place, col]
        new = np.zeros(setup_codes.shape, bool)
        new[under] = True
        for manner, state in np.argwhere(new & (setup_codes < 0)).tolist():
            setup = _setup(states[state], *manners[manner])
            setup_codes[manner, state] = setups.setdefault(setup, len(setups))
        of = place * len(series) + series_of_kind[kind]
        first_seen = np.unique(of[row_of[of] < 0])
        row_of[first_seen] = np.arange(len(of_row), len(of_row) + len(first_seen))
        of_row += [
            PastSeries(hosts[each // len(series)], *series[each % len(series)])
            for each in first_seen.tolist()
        ]
        more = len(first_seen), len(runs)
        values = np.vstack([values, np.full(more, np.nan)])
        setup_of = np.vstack([setup_of, np.full(more, -1, np.int32)])
        values[row_of[of], col] = figures["value"]
        setup_of[row_of[of], col] = setup_codes[under]
    return Past(
        tuple(
            PastRun(run, f"{began:%Y-%m-%dT%H:%M:%SZ}", profile, asked_of(json.loads(options)))
            for run, began, profile, options in runs
        ),
        tuple(of_row),
        tuple(setups),
        values,
        setup_of,
    )


def _held(checks: Mapping[str, Check]) -> list[tuple[str, str, str, float, float]]:
    """Return what is held: check, metric, unit, and the borders of what is believed."""
    return [
        (name, metric.name, metric.unit, *_believed(name, metric.unit))
        for name, metrics in held(checks).items()
        for metric in metrics.values()
    ]


def _believed(check: str, unit: str) -> tuple[float, float]:
    if check in COLLECTIVES:
        return PLAUSIBLE_BUSBW_GBPS
    return UNITS[unit].lowest, UNITS[unit].highest


def _coded(each: Iterable[T]) -> tuple[list[T], NDArray[np.int32]]:
    """Return what there is, and of each its place in it."""
    codes: dict[T, int] = {}
    places = [codes.setdefault(one, len(codes)) for one in each]
    return list(codes), np.array(places, np.int32)


def _manner(check: str, subject: str, library: str, *, load: bool) -> tuple[str, bool, str | None]:
    """Return what of a figure, beside its host's state, the setup depends on."""
    if check in COLLECTIVES:
        return "", True, library
    return subject, load, None


def _setup(of_host: Setups, subject: str, load: bool, library: str | None) -> Setup:
    return of_host.of_subject(subject, load=load) if library is None else of_host.of_leg(library)


def _states(history: History) -> list[Setups]:
    """Return what figures were measured under, by ``state``."""
    rows = history.rows(
        "SELECT any_value(driver), any_value(torch), arg_min((host, run), (host, run)) "
        "FROM visits GROUP BY state ORDER BY state"
    )
    gpus = gpus_of(history, [visit for _, _, visit in rows])
    return [
        Setups(
            driver,
            torch,
            (
                (g["slot"], g["serial"] or g["uuid"], g["vbios"])
                for g in gpus.get(visit, None) or ()
            ),
        )
        for driver, torch, visit in rows
    ]
