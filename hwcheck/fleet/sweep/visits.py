"""When each host was measured, at which level, and what came of it, by the history."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from hwcheck.contract.reasons import CUT_OFF, GIVEN_UP, of_former_run
from hwcheck.errors import UsageError
from hwcheck.fleet.sweep.incidents import METRICS, FaultCount
from hwcheck.fleet.sweep.levels import LEVELS, RANK
from hwcheck.fleet.sweep.state import parsed
from hwcheck.history.views import History
from hwcheck.results.multi_host import FILE, MultiHostRecord, read_multi_host
from hwcheck.results.run_folder import RunMeta, read_meta


@dataclass(frozen=True)
class PastVisit:
    """One host in one run. ``at`` is when the run began (UTC, naive); ``level`` may be empty.

    ``loaded``: a check that loads the host gave a figure, so nobody else was at work on it.
    ``boards`` tells which GPUs sit where, empty where none was seen.
    """

    host: str
    run: str
    at: datetime
    level: str
    state: str
    outcome: str
    reason_code: str = ""
    loaded: bool = False
    duration_s: float = 0.0
    boards: str = ""
    sweep: str = ""

    def measured_at(self, level: str) -> bool:
        """Whether this visit measured the host at this level, or a heavier one, to its end.

        A host that failed was measured; of one that was at work only the idle checks were.
        """
        if self.level not in RANK or RANK[self.level] < RANK[level]:
            return False
        return self.state == "reported" and (
            self.loaded or self.outcome == "fail" or not LEVELS[level].load
        )

    @property
    def cut_off(self) -> bool:
        """Whether the sweep itself ended while this visit was under way."""
        return self.reason_code == CUT_OFF

    @property
    def given_up(self) -> bool:
        """Whether it was ended since the scheduler wants the node."""
        return self.reason_code == GIVEN_UP


@dataclass(frozen=True)
class Runs:
    """What the runs of a folder tell, the oldest first: visits, and what ran over several hosts.

    ``faults`` are what the driver had reported on each host.
    """

    visits: list[PastVisit] = field(default_factory=list)
    faults: list[FaultCount] = field(default_factory=list)
    together: list[tuple[datetime, MultiHostRecord]] = field(default_factory=list)


def read_runs(
    runs: Path,
    since: datetime,
    checks: Mapping[str, Collection[str]],
    loads: Collection[str],
    only: Collection[str] = (),
) -> Runs:
    """Return what the runs of a folder tell that began at ``since`` or later, or ``only`` some.

    ``checks`` are those of each level, ``loads`` those that load a host. A folder that cannot be
    read is left out, and the history's own commands name it.
    """
    if not runs.is_dir():
        return Runs()
    first = f"{since:%Y%m%dT%H%M%SZ}"
    names = only or [name for name in os.listdir(runs) if name >= first]
    with History.open(runs, only=names or [""], kinds=("hosts", "samples")) as history:
        visits = read_visits(history, checks, loads)
        return Runs(visits, read_faults(history), read_together(history))


def read_visits(
    history: History, checks: Mapping[str, Collection[str]], loads: Collection[str]
) -> list[PastVisit]:
    """Return the visits of a history, the oldest first.

    ``checks`` are those of each level, ``loads`` those that load a host.
    """
    metas = {run: meta for run, path in history.folders.items() if (meta := _meta(path))}
    return [
        PastVisit(
            host,
            run,
            at,
            level_of(metas[run], checks) if run in metas else "",
            state,
            outcome,
            of_former_run(why or "").code if code is None else code,
            loaded,
            took_s or 0.0,
            boards or "",
            sweep=metas[run].sweep.get("id", "") if run in metas else "",
        )
        for host, run, at, state, outcome, why, code, loaded, took_s, boards in history.rows(
            """
            WITH loaded AS (
              SELECT DISTINCT run, host FROM samples WHERE list_contains($1, check_id))
            SELECT host, run, started, state, outcome, reason, reason_code, l.run IS NOT NULL,
              duration_s, boards
            FROM hosts AS h LEFT JOIN loaded AS l USING (run, host) ORDER BY started, run, host
            """,
            [sorted(loads)],
        )
    ]


def level_of(meta: RunMeta, checks: Mapping[str, Collection[str]]) -> str:
    """Return the level of a run: that of its sweep; by hand, the one whose checks it had.

    Empty where it had fewer, or none, as a run over several hosts has.
    """
    if meta.sweep:
        return meta.sweep.get("level", "") if meta.checks else ""
    of_profile = [name for name, level in LEVELS.items() if level.profile == meta.profile][-1]
    whole = bool(meta.checks) and set(checks[of_profile]) <= set(meta.checks)
    return of_profile if whole else ""


def read_faults(history: History) -> list[FaultCount]:
    """Return how many faults the driver had reported on each host in each run, by subject."""
    return [
        FaultCount(host, at, subject, int(events))
        for host, at, subject, events in history.rows(
            """
            SELECT host, started, subject, sum(value) FROM samples
            WHERE check_id = 'xid' AND list_contains($1, metric) AND value >= 0
            GROUP BY host, started, subject ORDER BY started, host, subject
            """,
            [list(METRICS)],
        )
    ]


def read_together(history: History) -> list[tuple[datetime, MultiHostRecord]]:
    """Return what the runs of a history ran over several hosts, and when each began, oldest first.

    A record that cannot be read is left out; the commands that show its run say why.
    """
    made = []
    for path in history.folders.values():
        if not (path / FILE).is_file():
            continue
        with suppress(UsageError, ValueError):
            meta, record = _meta(path), read_multi_host(path)
            if meta and record:
                made.append((parsed(meta.started), record))
    return sorted(made, key=lambda each: each[0])


def _meta(path: Path) -> RunMeta | None:
    """Return what a run asked; None where that cannot be read, which its readers say."""
    try:
        return read_meta(path)
    except UsageError:
        return None
