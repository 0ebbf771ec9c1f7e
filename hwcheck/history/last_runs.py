"""The last runs of the hosts that did not pass, as their report shows them."""

from __future__ import annotations

from collections.abc import Sequence

from hwcheck.advise.assessment import LastRuns
from hwcheck.history.events import Name
from hwcheck.history.views import History
from hwcheck.judge.records import Judgement

SHOWN = 30
MOST_HOSTS = 100
MOST_FIGURES = 8

NAMES = """
names AS (SELECT unnest($1) AS now, unnest($2) AS host, unnest($3) AS since, unnest($4) AS until)
"""


def last_runs(
    history: History, judgement: Judgement, names: Sequence[Name], started: str
) -> dict[str, LastRuns]:
    """Return the runs before ``started`` of hosts that did not pass now, under all their names.

    At most those of 100 hosts, as many as have a section in a report, and eight figures of each.
    """
    hosts = [host.host for host in judgement.hosts if host.outcome != "pass"][:MOST_HOSTS]
    of_hosts = [name for name in names if name.host in set(hosts)]
    if not of_hosts:
        return {}
    columns_of_names = [list(column) for column in zip(*of_hosts, strict=True)]
    runs: dict[str, list[tuple[str, str, str]]] = {}
    for host, run, began, outcome in history.rows(
        f"WITH {NAMES} SELECT now, run, strftime(started, '%Y-%m-%d %H:%M'), outcome "
        "FROM hosts JOIN names USING (host) "
        "WHERE started >= since AND started < until AND started < try_cast($5 AS TIMESTAMP) "
        f"QUALIFY row_number() OVER (PARTITION BY now ORDER BY started DESC, run) <= {SHOWN} "
        "ORDER BY started, run",
        [*columns_of_names, started],
    ):
        runs.setdefault(host, []).append((run, began, outcome))
    wanted = [key for host in hosts for key in _complaints(judgement, host)]
    values: dict[tuple[str, str, str, str], dict[str, float]] = {}
    if wanted and runs:
        columns = [list(column) for column in zip(*wanted, strict=True)]
        for *key, run, value in history.rows(
            f"WITH {NAMES}, wanted AS (SELECT unnest($5) AS now, unnest($6) AS check_id, "
            "unnest($7) AS metric, unnest($8) AS subject) "
            "SELECT now, check_id, metric, subject, run, value FROM samples "
            "JOIN names USING (host) JOIN wanted USING (now, check_id, metric, subject) "
            "WHERE started >= since AND started < until AND size_bytes IS NULL "
            "AND isfinite(value) AND list_contains($9, metric)",
            [*columns_of_names, *columns, sorted(set(columns[2]))],
        ):
            values.setdefault((key[0], key[1], key[2], key[3]), {})[run] = value
    return {
        host: LastRuns(
            tuple((began, outcome) for _, began, outcome in of_host),
            {
                key[1:]: tuple(by_run.get(run) for run, _, _ in of_host)
                for key, by_run in values.items()
                if key[0] == host
            },
        )
        for host, of_host in runs.items()
    }


def _complaints(judgement: Judgement, host: str) -> list[tuple[str, str, str, str]]:
    """Return host, check, metric and subject of the figures that it did not pass with."""
    bad = {
        (host, finding.check, finding.metric, finding.subject): None
        for finding in judgement.by_host.get(host, ())
        if finding.outcome != "pass"
        and isinstance(finding.value, int | float)
        and not isinstance(finding.value, bool)
    }
    return list(bad)[:MOST_FIGURES]
