"""The last runs of the hosts that did not pass, as their report shows them."""

from __future__ import annotations

from hwcheck.advise.assessment import Nights
from hwcheck.history.views import History
from hwcheck.judge.records import Judgement

SHOWN = 30
MOST_HOSTS = 100
MOST_FIGURES = 8


def last_runs(history: History, judgement: Judgement, started: str) -> dict[str, Nights]:
    """Return the runs before ``started`` of hosts that did not pass now.

    At most those of 100 hosts, as many as have a section in a report, and eight figures of each.
    """
    hosts = [host.host for host in judgement.hosts if host.outcome != "pass"][:MOST_HOSTS]
    if not hosts or not history.folders:
        return {}
    wanted = []
    for host in hosts:
        bad = {
            (finding.check, finding.metric, finding.subject): None
            for finding in judgement.by_host.get(host, ())
            if finding.outcome != "pass"
            and isinstance(finding.value, int | float)
            and not isinstance(finding.value, bool)
        }
        wanted += [(host, *key) for key in list(bad)[:MOST_FIGURES]]
    nights: dict[str, list[tuple[str, str, str]]] = {}
    for host, run, began, outcome in history.rows(
        "SELECT host, run, strftime(started, '%Y-%m-%d %H:%M'), outcome FROM hosts "
        "WHERE list_contains($1, host) AND started < try_cast($2 AS TIMESTAMP) "
        f"QUALIFY row_number() OVER (PARTITION BY host ORDER BY started DESC, run) <= {SHOWN} "
        "ORDER BY started, run",
        [hosts, started],
    ):
        nights.setdefault(host, []).append((run, began, outcome))
    values: dict[tuple[str, str, str, str], dict[str, float]] = {}
    if wanted and nights:
        columns = [list(column) for column in zip(*wanted, strict=True)]
        for *key, run, value in history.rows(
            "WITH wanted AS (SELECT unnest($1) AS host, unnest($2) AS check_id, "
            "unnest($3) AS metric, unnest($4) AS subject) "
            "SELECT host, check_id, metric, subject, run, value FROM samples "
            "JOIN wanted USING (host, check_id, metric, subject) "
            "WHERE size_bytes IS NULL AND isfinite(value) AND list_contains($5, metric)",
            [*columns, sorted(set(columns[2]))],
        ):
            values.setdefault((key[0], key[1], key[2], key[3]), {})[run] = value
    return {
        host: Nights(
            tuple((began, outcome) for _, began, outcome in of_host),
            {
                key[1:]: tuple(by_run.get(run) for run, _, _ in of_host)
                for key, by_run in values.items()
                if key[0] == host
            },
        )
        for host, of_host in nights.items()
    }
