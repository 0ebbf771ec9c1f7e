"""From a run folder to what its operator sees: judge, recommend, render, print, exit code."""

from __future__ import annotations

import gc
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from hwcheck.advise.actions import advise, by_urgency
from hwcheck.advise.assessment import Assessment
from hwcheck.advise.multi_host import group_actions
from hwcheck.advise.nccl_files import FOLDER, nccl_files
from hwcheck.judge.coverage import require
from hwcheck.judge.judge import judge
from hwcheck.judge.multi_host import with_group, without_group
from hwcheck.render.html import html
from hwcheck.render.junit import junit
from hwcheck.render.load_plots import drawn_hosts
from hwcheck.render.markdown import markdown
from hwcheck.render.summary import summary
from hwcheck.render.terminal import terminal
from hwcheck.results.multi_host import read_group
from hwcheck.results.run_folder import read_run, read_series, write_rendered
from hwcheck.tasks.output import emit, rendered


@contextmanager
def _uncollected() -> Iterator[None]:
    """Keep the garbage collector away: millions of records are built here, and none is garbage.

    Afterwards it leaves them alone too: looking through those of 1,000 hosts takes it a second.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_on:
            gc.enable()


@_uncollected()
def show(path: Path, *, as_json: bool, required_percent: float | None = None) -> int:
    """Judge and render a run folder anew, print what it says, and return the exit code.

    With ``required_percent`` a run of which less was measured, on any host, does not pass. Raises
    UsageError when the folder is damaged or cannot be written to, or stdout cannot.
    """
    run = read_run(path)
    group = read_group(path)
    judgement = with_group(judge(run), group)
    if required_percent is not None:
        judgement = require(judgement, required_percent)
    advice = advise(run, without_group(judgement))
    if group is not None:
        advice = replace(advice, actions=by_urgency((*group_actions(group), *advice.actions)))
    series = {host: read_series(path, host) for host in drawn_hosts(run, judgement)}
    observed = {host: own for host, own in series.items() if own}
    assessment = Assessment(run, judgement, advice, group, observed)
    write_rendered(
        path,
        {
            "report.html": html(assessment),
            "report.md": markdown(assessment),
            "junit.xml": junit(assessment),
            **nccl_files(advice),
        },
        anew=FOLDER,
    )
    if as_json:
        text = json.dumps(summary(assessment), indent=1, allow_nan=False) + "\n"
    else:
        text = rendered(terminal(assessment))
    emit(text, f"; the reports are in {path}")
    return judgement.exit_code
