"""What the runs over several hosts do to the verdict of each host. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hwcheck.judge.judge import EXIT_CODES
from hwcheck.judge.records import Finding, HostVerdict, Judgement, worst
from hwcheck.results.multi_host import GroupRecord, Suspect

CHECK = "group"
"""What its findings are listed under; no check of a node has this name."""
CUT_SHORT = "the runs over several hosts were cut short"


def with_group(judgement: Judgement, record: GroupRecord | None) -> Judgement:
    """Add the findings of a group to a judgement: a suspect fails, one not measured is unproven.

    A host of which nothing else was asked is judged by the group alone.
    """
    if record is None:
        return judgement
    findings = list(findings_of(record))
    kept = list(judgement.findings)
    verdicts = []
    for verdict in judgement.hosts:
        if verdict.host not in record.hosts:
            verdicts.append(verdict)
            continue
        if _nothing_else_asked(verdict):
            kept = [one for one in kept if one.host != verdict.host or one.check]
            verdict = replace(verdict, outcome="pass", reason="")
        own = [one for one in findings if one.host == verdict.host]
        verdicts.append(_joined(verdict, own, took_part=_took_part(record, verdict.host)))
    outcome = worst(verdict.outcome for verdict in verdicts)
    return Judgement(outcome, EXIT_CODES[outcome], tuple(verdicts), (*kept, *findings))


def without_group(judgement: Judgement) -> Judgement:
    """Return a judgement with the findings about single hosts only."""
    kept = tuple(finding for finding in judgement.findings if finding.check != CHECK)
    return replace(judgement, findings=kept)


def findings_of(record: GroupRecord) -> Iterator[Finding]:
    """Yield what the group has against each host."""
    for suspect in record.suspects:
        for host in suspect.hosts:
            yield Finding(host, CHECK, "fail", subject=_subject(suspect, host), reason=say(suspect))
    for host, text in record.warnings.items():
        yield Finding(host, CHECK, "warn", reason=text)
    for host, reason in record.absent.items():
        yield Finding(host, CHECK, "inconclusive", reason=f"took no part: {reason}")
    accused = {host for suspect in record.suspects for host in suspect.hosts}
    open_ends = [*record.unresolved, *([] if record.finished else [CUT_SHORT])]
    if len(set(record.hosts) - set(record.absent)) < 2:
        open_ends.append("fewer than two hosts took part")
    for text in open_ends:
        for host in record.hosts:
            if host not in accused and host not in record.absent:
                yield Finding(host, CHECK, "inconclusive", reason=text)


def say(suspect: Suspect) -> str:
    """Say what a host or a link is suspected of, in one line."""
    about = f"the link between {' and '.join(suspect.hosts)}: " if len(suspect.hosts) > 1 else ""
    more = len(suspect.evidence) - 3
    shown = "; ".join(suspect.evidence[:3]) + (f"; and {more} more" if more > 0 else "")
    return f"{about}{suspect.kind}: {shown}"


def _subject(suspect: Suspect, host: str) -> str:
    others = [name for name in suspect.hosts if name != host]
    return f"link to {others[0]}" if others else "node"


def _nothing_else_asked(verdict: HostVerdict) -> bool:
    return verdict.asked == verdict.not_applicable == 0 and verdict.state == "reported"


def _took_part(record: GroupRecord, host: str) -> bool:
    return any(host in run.hosts for run in record.runs)


def _joined(verdict: HostVerdict, own: Sequence[Finding], *, took_part: bool) -> HostVerdict:
    outcome = worst([verdict.outcome, *(one.outcome for one in own)])
    reasons = [verdict.reason] if verdict.outcome == outcome and verdict.reason else []
    reasons += [f"{CHECK}: {one.reason}" for one in own if one.outcome == outcome]
    return replace(
        verdict,
        outcome=outcome,
        reason="; ".join(dict.fromkeys(reasons[:3])),
        asked=verdict.asked + 1,
        measured=verdict.measured + took_part,
    )
