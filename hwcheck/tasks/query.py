"""``fab query``: SQL over the runs of a folder."""

from __future__ import annotations

from invoke import Context

from hwcheck.errors import UsageError
from hwcheck.render.history import FORMATS, answer_text
from hwcheck.tasks.command import command
from hwcheck.tasks.dataset import RUNS, RUNS_HELP, history_of
from hwcheck.tasks.flags import one_of
from hwcheck.tasks.output import emit, rendered


@command(
    positional=["sql"],
    help={
        "sql": "one SELECT over runs, hosts, gpus, samples, findings and causes",
        "format": "table (default), csv or json",
        **RUNS_HELP,
    },
)
def query(
    ctx: Context,  # noqa: ARG001 - invoke hands every task its context
    sql: str,
    format: str = FORMATS[0],  # noqa: A002 - the flag's name
    runs: str = RUNS,
) -> None:
    """Answer a question in SQL; nothing is written."""
    one_of("--format", format, FORMATS)
    if not sql.strip():
        raise UsageError('query: say what, as in hwcheck query "SELECT * FROM runs"')
    with history_of(runs) as past:
        text = answer_text(past.select(sql), format)
    emit(text if isinstance(text, str) else rendered(text))
