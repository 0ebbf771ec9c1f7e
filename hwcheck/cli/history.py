"""``hwcheck history``: the runs of a folder, or its hosts, line by line."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from hwcheck.cli.command import command, fab_task, flag, option
from hwcheck.cli.dataset import history_of, runs_flag, since_flag
from hwcheck.cli.flags import HOSTS_HELP, hosts_flag, limit_flag, read_cluster
from hwcheck.cli.output import emit, rendered, say
from hwcheck.cli.values import Since, Whole
from hwcheck.errors import UsageError
from hwcheck.history import dataset, retention
from hwcheck.history.dataset import KINDS
from hwcheck.history.names import refuse_unknown_hosts
from hwcheck.history.overview import host_lines, last_values, run_lines
from hwcheck.history.trend import metric_named
from hwcheck.history.views import History
from hwcheck.report.history import hosts_table, left_out_lines, runs_table
from hwcheck.text import line

__getattr__ = fab_task(__name__)

SHOWN = 30


@command(
    "history",
    examples=(
        "hwcheck history",
        "hwcheck history --hosts node02, --metric all_reduce.busbw_gbps --since 30d",
        "hwcheck history --delete --older-than 26w --keep 100",
    ),
)
@hosts_flag("a line for each of these hosts: " + HOSTS_HELP)
@limit_flag()
@flag("--per-host", help="a line for each host of the history")
@option(
    "--metric",
    metavar="METRIC",
    default="",
    help="also the last value, and those before it, of this metric on each host",
)
@flag("--rebuild", help="write the Parquet files of runs that have none, or damaged ones, and list")
@option(
    "--older-than",
    type=Since(),
    help="with --delete: runs that began before this day or so long ago may go",
)
@option("--keep", type=Whole(1), help="with --delete: all but so many of the newest runs may go")
@flag(
    "--delete",
    help="say which runs --older-than and --keep would delete, kept ones with the reason",
)
@flag("--yes", help="with --delete: delete them")
@flag(
    "--html",
    help="write index.html into the folder of the runs: all hosts by nights, what is open since "
    "when, links to the reports",
)
@since_flag
@runs_flag
def cli(
    *,
    hosts: str | None,
    limit: str | None,
    per_host: bool,
    metric: str,
    rebuild: bool,
    older_than: datetime | None,
    keep: int | None,
    delete: bool,
    yes: bool,
    html: bool,
    since: datetime | None,
    runs: str,
) -> None:
    """Say what the runs came to, or each host over them."""
    if limit and not hosts:
        raise UsageError("--limit: it chooses among the hosts of --hosts; say both")
    if delete != bool(older_than or keep) or (yes and not delete):
        raise UsageError("--delete goes with --older-than or --keep, and --yes with --delete")
    if rebuild:
        take_in(Path(runs))
    if html:
        write_page(runs)
        return
    names = [host.name for host in read_cluster(hosts, limit).hosts] if hosts else []
    only_hosts = (names or per_host) and not (metric or delete)
    kinds = ("findings", "hosts") if only_hosts else KINDS
    with history_of(runs, kinds=kinds) as past:
        if names:
            refuse_unknown_hosts(past, names)
        if delete:
            text = retained(past, older_than, keep, sure=yes)
        elif names or per_host or metric:
            asked = metric_named(past, metric) if metric else None
            values = last_values(past, asked, names, since) if asked else {}
            lines = host_lines(past, names, since)
            text = rendered(hosts_table(lines, values, asked))
        else:
            of_runs = run_lines(past, since)
            text = rendered(runs_table(of_runs, len(of_runs) if since else SHOWN))
    emit(text)


def write_page(runs: str) -> None:
    """Write the page of the fleet, and say where it is. Raises UsageError and DiskError."""
    from hwcheck.advise.catalogue import shipped
    from hwcheck.cli.index_page import INDEX, write_index  # what only lists does without

    for text in left_out_lines(write_index(Path(runs), shipped())):
        say(f"hwcheck: {text}")
    say(f"hwcheck: {Path(runs) / INDEX}")


def take_in(runs: Path) -> None:
    """Write the files of runs that have none or damaged ones, and say what became of each."""
    from hwcheck.advise.assessment import assess  # not above: what only lists judges nothing
    from hwcheck.advise.catalogue import shipped
    from hwcheck.cli.site_option import refuse_without_site
    from hwcheck.results.multi_host import read_multi_host
    from hwcheck.results.run_folder import read_run
    from hwcheck.results.training import read_training

    with History.open(runs) as past:
        missing = [each.path for each in past.left_out if each.remakable]
    for path in missing:
        try:
            run = read_run(path)
            if not run.meta.finished:
                raise UsageError(f"under way, or cut short; `hwcheck report {path}` takes it in")
            refuse_without_site(None, path, run.meta)
            multi_host, training = read_multi_host(path), read_training(path)
            dataset.write(path, assess(run, shipped(), multi_host, training=training))
        except UsageError as error:
            say(f"hwcheck: {line(path.name, 80)}: not taken in: {error}")
        else:
            say(f"hwcheck: {line(path.name, 80)}: taken in")


def retained(past: History, before: datetime | None, most: int | None, *, sure: bool) -> str:
    """Delete, or say what would be deleted, and what is kept. Raises UsageError."""
    planned = retention.plan(past, before, most)
    if sure:
        retention.delete(past.runs, planned.going)
    word = "deleted" if sure else "would be deleted"
    lines = [f"{line(folder.name, 80)}: {word}" for folder in planned.going]
    lines += [f"{line(folder.name, 80)}: kept: {why}" for folder, why in planned.kept]
    if planned.going and not sure:
        lines.append("add --yes to delete")
    return "".join(f"{each}\n" for each in lines or ["nothing to delete"])
