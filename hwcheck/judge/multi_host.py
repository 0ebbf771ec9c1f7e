"""What the runs over several hosts say of each of them. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hwcheck.contract import reasons
from hwcheck.contract.reasons import Reason, remark
from hwcheck.judge.host_case import HostCase
from hwcheck.judge.records import MULTI_HOST, Finding, unmeasured
from hwcheck.results.multi_host import MultiHostRecord, Suspect

CUT_SHORT = Reason(reasons.RUNS_CUT_SHORT, "the runs over several hosts were cut short")
TOO_FEW = Reason(reasons.TOO_FEW_HOSTS, "fewer than two hosts took part")


def judge_multi_host(host: HostCase) -> Iterator[Finding]:
    """Yield what the runs over several hosts have against a host; nothing where it had no part."""
    if host.multi_host is not None:
        yield from findings_about(host.name, host.multi_host)


def findings_about(host: str, record: MultiHostRecord) -> Iterator[Finding]:
    """Yield findings about one of the record's hosts: a suspect fails, one not measured is open.

    Of the fabric between groups of hosts there is none: each group is fine by itself, and the run
    fails by it as a whole (``Judgement.fabric``).
    """
    suspects = [suspect for suspect in record.suspects if host in suspect.hosts]
    for suspect in suspects:
        subject = _subject(suspect, host)
        yield Finding(
            host,
            MULTI_HOST,
            "fail",
            subject=subject,
            reason=Reason(reasons.SUSPECT, in_words(suspect)),
        )
    if host in record.warnings:
        yield Finding(host, MULTI_HOST, "warn", reason=remark(record.warnings[host]))
    if host in record.absent:
        reason = Reason(reasons.NO_PART, f"took no part: {record.absent[host].text}")
        yield unmeasured(host, MULTI_HOST, reason)
    elif not suspects:
        for reason in _open_ends(record):
            yield unmeasured(host, MULTI_HOST, reason)
        if host in record.not_compared:
            reason = Reason(reasons.NO_REFERENCE, record.not_compared[host])
            yield unmeasured(host, MULTI_HOST, reason)


def took_part(host: str, record: MultiHostRecord) -> bool:
    """Whether a host was in any of the runs."""
    return any(host in run.hosts for run in record.runs)


def in_words(suspect: Suspect) -> str:
    """Say what a host or a link is suspected of, in one line."""
    about = f"the link between {' and '.join(suspect.hosts)}: " if len(suspect.hosts) > 1 else ""
    more = len(suspect.evidence) - 3
    shown = "; ".join(suspect.evidence[:3]) + (f"; and {more} more" if more > 0 else "")
    return f"{about}{suspect.kind}: {shown}"


def _open_ends(record: MultiHostRecord) -> Iterator[Reason]:
    """Yield what leaves every host of the runs unproven."""
    yield from record.open_ends
    if not record.finished:
        yield CUT_SHORT
    if len(set(record.hosts) - set(record.absent)) < 2:
        yield TOO_FEW


def _subject(suspect: Suspect, host: str) -> str:
    others = [name for name in suspect.hosts if name != host]
    return f"link to {others[0]}" if others else "node"
