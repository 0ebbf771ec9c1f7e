"""From a run folder to what its operator sees: judge, recommend, render, print, exit code."""

from __future__ import annotations

import json
from pathlib import Path

from hwcheck.judge.judge import judge
from hwcheck.recommend.actions import advise
from hwcheck.recommend.nccl import nccl_conf, nccl_env
from hwcheck.render.html import html
from hwcheck.render.junit import junit
from hwcheck.render.markdown import markdown
from hwcheck.render.series import drawn_hosts
from hwcheck.render.summary import summary
from hwcheck.render.terminal import terminal
from hwcheck.results import read_run, read_series, write_rendered
from hwcheck.tasks.output import emit, rendered


def show(path: Path, *, as_json: bool) -> int:
    """Judge and render a run folder anew, print what it says, and return the exit code.

    Raises UsageError when the folder is damaged or cannot be written to, or stdout cannot.
    """
    run = read_run(path)
    judgement = judge(run)
    advice = advise(run, judgement)
    loads = {host: read_series(path, host) for host in drawn_hosts(run, judgement)}
    write_rendered(
        path,
        {
            "report.html": html(
                run, judgement, advice, {host: load for host, load in loads.items() if load}
            ),
            "report.md": markdown(run, judgement, advice),
            "junit.xml": junit(run, judgement, advice),
            "nccl.conf": nccl_conf(advice.nccl),
            "nccl.env": nccl_env(advice.nccl),
        },
    )
    if as_json:
        text = json.dumps(summary(run, judgement, advice), indent=1, allow_nan=False) + "\n"
    else:
        text = rendered(terminal(run, judgement, advice))
    emit(text, f"; the reports are in {path}")
    return judgement.exit_code
