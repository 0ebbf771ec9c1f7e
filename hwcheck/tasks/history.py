"""``fab history``: the runs of a folder, or its hosts, line by line."""

from __future__ import annotations

from invoke import Context

from hwcheck.errors import UsageError
from hwcheck.history.overview import host_lines, known_host, run_lines
from hwcheck.render.history import hosts_table, runs_table
from hwcheck.tasks.command import command
from hwcheck.tasks.dataset import RUNS, RUNS_HELP, SINCE_HELP, history_of, since_time
from hwcheck.tasks.flags import HELP, read_cluster
from hwcheck.tasks.output import emit, rendered

SHOWN = 30


@command(
    help={
        "hosts": "a line for each of these hosts: " + HELP["hosts"],
        "limit": HELP["limit"],
        "per-host": "a line for each host of the history",
        **SINCE_HELP,
        **RUNS_HELP,
    },
)
def history(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    hosts: str = "",
    limit: str | None = None,
    per_host: bool = False,
    since: str = "",
    runs: str = RUNS,
) -> None:
    """Say what the runs came to, or each host over them."""
    start = since_time("--since", since)
    if limit and not hosts:
        raise UsageError("--limit: it chooses among the hosts of --hosts; say both")
    names = [host.name for host in read_cluster(hosts, limit).hosts] if hosts else []
    with history_of(runs) as past:
        for name in names:
            known_host(past, name)
        if names or per_host:
            text = rendered(hosts_table(host_lines(past, names, start)))
        else:
            lines = run_lines(past, start)
            text = rendered(runs_table(lines, len(lines) if start else SHOWN))
    emit(text)
