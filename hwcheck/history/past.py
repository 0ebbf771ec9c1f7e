"""What former runs measured, as judging takes it: ``judge.past.Past`` of the samples' files."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap

import numpy as np

from hwcheck.history.dataset import EXERCISE
from hwcheck.history.events import Name
from hwcheck.history.views import History
from hwcheck.judge.legs import LEAST_BYTES, PLAUSIBLE_BUSBW_GBPS
from hwcheck.judge.past import HELD, NO_PAST, Past, PastRun, Series, Setup
from hwcheck.judge.readings import RANGES
from hwcheck.node import checks
from hwcheck.node.wire import COLLECTIVES

NAMES = """
CREATE OR REPLACE TEMP TABLE names AS
SELECT unnest($1) AS host, unnest($2) AS called, unnest($3) AS since, unnest($4) AS until
"""

OF_NAME = "{table}.host = names.called AND started >= names.since AND started < names.until"

FIGURES = f"""
CREATE OR REPLACE TEMP TABLE figures AS
WITH held AS (SELECT unnest($2) AS check_id, unnest($3) AS metric, unnest($4) AS unit,
  unnest($5) AS lowest, unnest($6) AS highest)
SELECT names.host, run, check_id, metric, subject, coalesce(size_bytes, 0) AS size_bytes, value,
  coalesce(library, '') AS library
FROM samples JOIN held USING (check_id, metric, unit)
JOIN names ON {OF_NAME.format(table="samples")}
WHERE started < try_cast($1 AS TIMESTAMP)
  AND value BETWEEN lowest AND highest AND value_text IS NULL
  AND CASE WHEN check_id IN {COLLECTIVES}
    THEN size_bytes >= {LEAST_BYTES} AND NOT {EXERCISE.format(table="samples")}
      AND value BETWEEN {PLAUSIBLE_BUSBW_GBPS[0]} AND {PLAUSIBLE_BUSBW_GBPS[1]}
    ELSE size_bytes IS NULL END
"""

SETUPS = f"""
CREATE OR REPLACE TEMP TABLE measured AS
WITH gpus_of AS (
  SELECT names.host, run, coalesce(driver, '') AS driver, coalesce(torch, '') AS torch, gpus
  FROM hosts JOIN names ON {OF_NAME.format(table="hosts")}
), wanted AS (
  SELECT DISTINCT host, run, subject, library, check_id IN {COLLECTIVES} AS of_leg,
    list_contains($1, check_id) AS of_load
  FROM figures
), those AS (
  SELECT wanted.*, driver, torch,
    CASE WHEN of_leg THEN gpus
      ELSE [g FOR g IN gpus IF list_contains(string_split(subject, '-'), g.slot)] END AS named
  FROM wanted JOIN gpus_of USING (host, run)
)
SELECT host, run, subject, library, of_leg, of_load,
  CASE WHEN len(named) > 0 THEN driver ELSE '' END AS driver,
  array_to_string(list_sort(list_distinct([g.vbios FOR g IN named IF g.vbios <> ''])), ' ')
    AS vbios,
  CASE WHEN of_leg THEN library ELSE '' END AS nccl,
  CASE WHEN of_leg OR of_load THEN torch ELSE '' END AS torch,
  trim(array_to_string([CASE WHEN g.serial <> '' THEN g.serial ELSE g.uuid END FOR g IN named],
    ' ')) AS board
FROM those
"""


def past_of(history: History, names: Sequence[Name], started: str) -> Past:
    """Return the figures of hosts, under the names that they had, in the runs before ``started``.

    They equal what ``judge.past.figures`` gives of each of those runs, but for samples of checks
    that did not come to their end: of these the history does not know.
    """
    if not history.folders or not names:
        return NO_PAST
    registry = checks.load()
    loads = [name for name, check in registry.items() if check.load]
    held = [
        (name, metric.name, metric.unit, *RANGES[metric.unit])
        for name, metrics in HELD.items()
        if name in registry
        for metric in registry[name].metrics
        if metric.name in metrics
    ]
    history.rows(NAMES, list(map(list, zip(*names, strict=True))))
    history.rows(FIGURES, [started, *map(list, zip(*held, strict=True))])
    history.rows(SETUPS, [loads])
    runs = [
        PastRun(name, f"{began:%Y-%m-%dT%H:%M:%SZ}", profile)
        for name, began, profile in history.rows(
            "SELECT run, any_value(started), coalesce(any_value(profile), '') FROM hosts "
            "WHERE run IN (SELECT run FROM figures) GROUP BY run ORDER BY 2, 1"
        )
    ]
    if not runs:
        return NO_PAST
    of_series = "host, check_id, metric, subject, size_bytes"
    of_setup = "driver, vbios, nccl, torch, board"
    series = list(
        starmap(
            Series, history.rows(f"SELECT DISTINCT {of_series} FROM figures ORDER BY {of_series}")
        )
    )
    setups = list(
        starmap(
            Setup, history.rows(f"SELECT DISTINCT {of_setup} FROM measured ORDER BY {of_setup}")
        )
    )
    codes = history.arrays(
        f"""
        WITH series AS (SELECT *, row_number() OVER (ORDER BY {of_series}) - 1 AS row FROM
            (SELECT DISTINCT {of_series} FROM figures)),
          setups AS (SELECT *, row_number() OVER (ORDER BY {of_setup}) - 1 AS setup FROM
            (SELECT DISTINCT {of_setup} FROM measured)),
          runs AS (SELECT unnest($1) AS run, unnest(range(len($1))) AS col)
        SELECT row, col, setup, value
        FROM figures JOIN series USING ({of_series}) JOIN runs USING (run)
        JOIN measured ON measured.host = figures.host AND measured.run = figures.run
          AND measured.subject = figures.subject AND measured.library = figures.library
          AND of_leg = (check_id IN {COLLECTIVES}) AND of_load = list_contains($2, check_id)
        JOIN setups USING ({of_setup})
        """,
        [[each.id for each in runs], loads],
    )
    values = np.full((len(series), len(runs)), np.nan)
    setup_of = np.full((len(series), len(runs)), -1, np.int32)
    place = codes["row"].astype(np.int64), codes["col"].astype(np.int64)
    values[place] = codes["value"]
    setup_of[place] = codes["setup"]
    return Past(tuple(runs), tuple(series), tuple(setups), values, setup_of)
