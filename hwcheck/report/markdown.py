"""``report.md``: for a ticket or a merge request, so it is short. GitHub's Markdown.

What there is to decide and to do; every figure, limit and log stands in ``report.html``.
"""

from __future__ import annotations

import re

from hwcheck.advise.assessment import Assessment
from hwcheck.judge.coverage import gaps
from hwcheck.report.report import render
from hwcheck.report.view import host_views

MOST_ROWS = 20
MOST_GAPS = 10
MOST_LINES = 4
"""Lines of what was observed, of each cause and action."""


def markdown(assessment: Assessment) -> str:
    """Return the report as Markdown."""
    hosts = list(host_views(assessment))
    text = render(
        "md",
        assessment,
        hosts,
        rows=[host for host in hosts if host.verdict.outcome != "pass"],
        open_gaps=[gap for gap in gaps(assessment.judgement) if gap.applies or not gap.judged],
        most_rows=MOST_ROWS,
        most_gaps=MOST_GAPS,
        most_lines=MOST_LINES,
    )
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"
