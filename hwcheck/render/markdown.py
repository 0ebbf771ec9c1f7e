"""``report.md``: for a ticket or a merge request. GitHub's Markdown."""

from __future__ import annotations

from hwcheck.advise.assessment import Assessment
from hwcheck.render.report import render
from hwcheck.render.view import QUIET, HostView, host_views

MOST_HOSTS = 64
"""Hosts that passed are folded into one line in a larger run."""

HOSTS_WITH_LOGS = 10
LOG_CHARACTERS = 1500


def markdown(assessment: Assessment) -> str:
    """Return the report as Markdown."""
    hosts = list(host_views(assessment))
    folded = len(hosts) > MOST_HOSTS
    rows = [host for host in hosts if host.verdict.outcome != "pass"] if folded else hosts
    text = render(
        "md",
        assessment,
        hosts,
        folded=folded,
        passed=[host.name for host in hosts if host.verdict.outcome == "pass"],
        rows=rows,
        details=[host for host in rows if _has_details(host)],
        logged=[host.name for host in rows if _has_log(host)][:HOSTS_WITH_LOGS],
        log_characters=LOG_CHARACTERS,
    )
    return text.rstrip() + "\n"


def _has_details(host: HostView) -> bool:
    """Whether there is more to say of a host than its row of the table does."""
    return host.record.report is None or any(
        check.legs or check.outcome not in QUIET for check in host.checks
    )


def _has_log(host: HostView) -> bool:
    return any(leg.log_tail for check in host.checks for leg in check.legs)
