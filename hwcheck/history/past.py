"""What former runs measured, as judging takes it: ``judge.past.Past`` of the samples' files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwcheck.history.dataset import EXERCISE
from hwcheck.history.events import ALWAYS, Name, gpus_of
from hwcheck.history.rows import SECOND_VISIT
from hwcheck.history.views import History
from hwcheck.judge.legs import LEAST_BYTES, PLAUSIBLE_BUSBW_GBPS
from hwcheck.judge.past import HELD, NO_PAST, Past, PastRun, Series, Setup, Setups
from hwcheck.judge.readings import RANGES
from hwcheck.node import checks
from hwcheck.node.wire import COLLECTIVES

MOST_VISITS = 30_000
"""So many hosts times runs are read at once: some 8 million figures in 300 MB."""

VISITS = """
CREATE OR REPLACE TEMP TABLE visits AS
WITH names AS (
  SELECT unnest($1) AS now, unnest($2) AS called, unnest($3) AS since, unnest($4) AS until
)
SELECT now, host, run, started, coalesce(profile, '') AS profile,
  coalesce(driver, '') AS driver, coalesce(torch, '') AS torch,
  dense_rank() OVER (ORDER BY started, run)::INTEGER - 1 AS col,
  dense_rank() OVER (ORDER BY now, driver, torch, boards)::INTEGER - 1 AS state
FROM hosts JOIN names ON host = called AND started >= since AND started < until
WHERE started < try_cast($5 AS TIMESTAMP)
"""
"""The hosts in former runs, whatever they were called; of one ``state`` all of its software and
boards are the same."""

FIGURES = f"""
WITH held AS (SELECT unnest($1) AS check_id, unnest($2) AS metric, unnest($3) AS unit,
  unnest($4) AS lowest, unnest($5) AS highest)
SELECT now, check_id, metric, subject, coalesce(size_bytes, 0) AS size_bytes, state,
  CASE WHEN check_id IN {COLLECTIVES} THEN coalesce(library, '') ELSE '' END AS library,
  list(col) AS cols, list(value) AS figures
FROM samples JOIN held USING (check_id, metric, unit)
JOIN visits ON samples.host = visits.host AND samples.run = visits.run
WHERE samples.started >= $6 AND samples.started < $7
  AND value BETWEEN lowest AND highest AND value_text IS NULL
  AND CASE WHEN check_id IN {COLLECTIVES}
    THEN size_bytes >= {LEAST_BYTES} AND NOT {EXERCISE.format(table="samples")}
      AND NOT ends_with(subject, '{SECOND_VISIT}')
      AND value BETWEEN {PLAUSIBLE_BUSBW_GBPS[0]} AND {PLAUSIBLE_BUSBW_GBPS[1]}
    ELSE size_bytes IS NULL END
GROUP BY ALL
"""


OF_SERIES = ("now", "check_id", "metric", "subject", "size_bytes")
LISTS = ("cols", "figures")


def past_of(history: History, names: Sequence[Name], started: str) -> Past:
    """Return the figures of hosts, under the names that they had, in the runs before ``started``.

    They equal what ``judge.past.figures`` gives of each of those runs, but for samples of checks
    that did not come to their end: of these the history does not know.
    """
    if not history.folders or not names:
        return NO_PAST
    registry = checks.load()
    loads = {name for name, check in registry.items() if check.load}
    held = [
        (name, metric.name, metric.unit, *RANGES[metric.unit])
        for name, metrics in HELD.items()
        if name in registry
        for metric in registry[name].metrics
        if metric.name in metrics
    ]
    history.rows(VISITS, [*map(list, zip(*names, strict=True)), started])
    runs = history.rows(
        "SELECT run, started, any_value(profile) FROM visits GROUP BY ALL ORDER BY started, run"
    )
    states = _states(history)
    row_of: dict[Series, int] = {}
    code_of: dict[Setup, int] = {}
    values = np.empty((0, len(runs)))
    setup_of = np.empty((0, len(runs)), np.int32)
    at_once = max(1, MOST_VISITS // len(names))
    for first in range(0, len(runs), at_once):
        until = runs[first + at_once][1] if first + at_once < len(runs) else ALWAYS[1]
        parameters = [*map(list, zip(*held, strict=True)), runs[first][1], until]
        columns = {
            name: column.tolist() if name not in LISTS else column
            for name, column in history.arrays(FIGURES, parameters).items()
        }
        if not columns["now"]:
            continue
        rows = [
            row_of.setdefault(Series(*key), len(row_of))
            for key in zip(*(columns[name] for name in OF_SERIES), strict=True)
        ]
        codes = []
        for check, subject, state, library in zip(
            *(columns[name] for name in ("check_id", "subject", "state", "library")), strict=True
        ):
            of_host = states[state]
            setup = (
                of_host.of_leg(library)
                if check in COLLECTIVES
                else of_host.of_subject(subject, load=check in loads)
            )
            codes.append(code_of.setdefault(setup, len(code_of)))
        if len(row_of) > len(values):
            more = (len(row_of) - len(values), len(runs))
            values = np.vstack([values, np.full(more, np.nan)])
            setup_of = np.vstack([setup_of, np.full(more, -1, np.int32)])
        lengths = [len(cols) for cols in columns["cols"]]
        place = np.repeat(rows, lengths), np.concatenate(columns["cols"])
        values[place] = np.concatenate(columns["figures"])
        setup_of[place] = np.repeat(codes, lengths)
    return Past(
        tuple(PastRun(run, f"{began:%Y-%m-%dT%H:%M:%SZ}", profile) for run, began, profile in runs),
        tuple(row_of),
        tuple(code_of),
        values,
        setup_of,
    )


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
