"""``hwcheck trend``: one metric over the runs, as a picture or as text."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path

import click

from hwcheck import checks
from hwcheck.advise.catalogue import Catalogue
from hwcheck.cli.command import command, fab_task, option, word
from hwcheck.cli.dataset import history_of, runs_flag, since_flag, write_picture
from hwcheck.cli.output import emit, rendered
from hwcheck.cli.values import Size
from hwcheck.errors import UsageError
from hwcheck.history.trend import Trend, gpus_named, metric_named
from hwcheck.history.trend import trend as trend_of
from hwcheck.history.views import History
from hwcheck.judge import models
from hwcheck.judge.judge import judge
from hwcheck.judge.records import Judgement
from hwcheck.report.trend import FORMATS, trend_html, trend_png, trend_text
from hwcheck.results.run_folder import read_run

__getattr__ = fab_task(__name__)


@command(
    "trend",
    examples=(
        "hwcheck trend busbw_gbps",
        "hwcheck trend all_reduce.busbw_gbps --host node03 --size 64M --since 30d",
        "hwcheck trend power_limit_w --gpu 1650001023 --output power.html",
    ),
)
@word("metric", help="a metric (busbw_gbps), or check and metric (all_reduce.busbw_gbps)")
@option("--host", metavar="HOST", help="of this host (default: all hosts, as a band)")
@option("--gpu", metavar="SERIAL", help="of this GPU, by serial or UUID, wherever it sat")
@option(
    "--subject",
    metavar="SUBJECT",
    default="",
    help="of this subject only: gpu3, 'leg net' (default: all; of legs leg default)",
)
@option("--size", type=Size(), help="message size of a leg, as 64M (default: its largest)")
@since_flag
@option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    default="",
    help="draw it: FILE.png, or FILE.html",
)
@runs_flag
def cli(
    *,
    metric: str,
    host: str | None,
    gpu: str | None,
    subject: str,
    size: int | None,
    since: datetime | None,
    output: str,
    runs: str,
) -> None:
    """Show a metric over time, with its limit, the band of all hosts, and what changed when."""
    if host and gpu:
        raise UsageError("--host and --gpu: name one of them; a GPU is followed over hosts")
    if output and Path(output).suffix not in FORMATS:
        raise UsageError(f"--output {output}: it draws {' or '.join(FORMATS)}; end the name so")
    with history_of(runs, kinds=("samples", "hosts")) as past:
        if not past.folders:
            raise UsageError(f"{runs}: no run in it has a history; see hwcheck history --rebuild")
        with ThreadPoolExecutor(1) as meanwhile:
            if host:  # while DuckDB reads; as a rule the host's last run is the last of all
                meanwhile.submit(judged, list(past.folders.values())[-1], host)
            asked = metric_named(past, metric, subject, size)
            gpus = gpus_named(past, gpu) if gpu else []
            shown = trend_of(past, asked, host or "", gpus, since)
        shown = with_limit(past, shown)
    if not output:
        emit(rendered(trend_text(shown)))
        return
    picture = trend_png(shown) if output.endswith(".png") else trend_html(shown).encode()
    write_picture(output, picture)


@cache
def judged(run: Path, host: str) -> Judgement:
    """Judge one host of a run, once. Raises UsageError."""
    catalogue = Catalogue(checks.load(), models.shipped(), rules={})  # none of them judges
    return judge(read_run(run, only={host}), catalogue)


def with_limit(history: History, shown: Trend) -> Trend:
    """Add the limit in force: what the last of its runs is judged by today, on one host."""
    if shown.points:
        last = max(shown.points)
        of_one = [(last.run, last.host)]
    else:
        newest = shown.bands[-1].started
        of_one = history.rows(
            "SELECT run, host FROM samples WHERE started = $1 AND check_id = $2 AND metric = $3 "
            "LIMIT 1",
            [newest, shown.asked.check, shown.asked.metric],
        )
    ((run, host),) = of_one
    try:
        judgement = judged(history.folders[run], host)
    except UsageError:  # the files that it was made of are gone or damaged: there is no limit
        return shown
    wanted = {shown.asked.subject} if shown.asked.subject else {p.subject for p in shown.points}
    for finding in judgement.findings:
        of = (finding.check, finding.metric) == (shown.asked.check, shown.asked.metric)
        borders = finding.fail_at is not None or finding.warn_at is not None
        if of and borders and (not wanted or finding.subject in wanted):
            return replace(
                shown, fail_at=finding.fail_at, warn_at=finding.warn_at, limit=finding.limit
            )
    return shown
