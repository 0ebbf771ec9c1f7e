"""``hwcheck query``: SQL over the runs of a folder."""

from __future__ import annotations

from hwcheck.cli.command import command, fab_task, word
from hwcheck.cli.dataset import format_flag, history_of, runs_flag
from hwcheck.cli.output import emit, rendered
from hwcheck.errors import UsageError
from hwcheck.report.history import answer_text

__getattr__ = fab_task(__name__)


@command(
    "query",
    examples=(
        'hwcheck query "SELECT * FROM runs ORDER BY started DESC LIMIT 5"',
        "hwcheck query \"SELECT host FROM hosts WHERE outcome = 'fail'\" --format csv",
        'hwcheck query "SELECT cause, count(*) FROM causes GROUP BY ALL" --format json',
    ),
)
@word("sql", help="one SELECT over runs, hosts, gpus, samples, findings and causes")
@format_flag
@runs_flag
def cli(*, sql: str, format_: str, runs: str) -> None:
    """Answer a question in SQL; nothing is written."""
    if not sql.strip():
        raise UsageError('query: say what, as in hwcheck query "SELECT * FROM runs"')
    with history_of(runs) as past:
        text = answer_text(past.select(sql), format_)
    emit(text if isinstance(text, str) else rendered(text))
