"""What a run shows to be wrong, host by host and check by check, as it is kept until the next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hwcheck.advise.assessment import Assessment
from hwcheck.advise.causes import in_words
from hwcheck.advise.multi_host import FABRIC_FIX, FABRIC_TITLE
from hwcheck.contract import reasons
from hwcheck.judge.records import MULTI_HOST, OUTCOMES, Finding, worst
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import line

WHOLE_HOST = ""
"""The check of a problem that is about a host as a whole: nobody reached it."""
NOT_MEASURED = "not_measured"
"""The check of a problem that no sweep came to a host for too long."""
LINKS_NOT_MEASURED = "links_not_measured"
"""The check of a problem that a host did not run together with others for too long."""
REPEATED = "repeated_incidents"
"""The check of a problem that the driver reports faults on a host again and again."""
NOT_DRAINED = "not_drained"
"""The check of a problem that a host failed and takes jobs all the same."""
TITLES = {
    WHOLE_HOST: "no whole answer",
    NOT_DRAINED: "failed, and could not be drained",
    MULTI_HOST: "slow or broken between hosts",
    NOT_MEASURED: "not measured for too long",
    REPEATED: "the driver reports faults again and again",
    LINKS_NOT_MEASURED: "links between hosts not measured for too long",
}
"""What the checks are called that are none."""
WELL = ("done", "not_applicable")
"""States of an answer without complaint: nothing is wrong there."""
ENDED_TOGETHER = (reasons.NO_PART, reasons.RUNS_CUT_SHORT, reasons.TOO_FEW_HOSTS)
"""Codes of runs over several hosts that ended, or went without the host."""
MOST_SUBJECTS = 64
LINE_CHARACTERS = 300
BUSY = "busy"


@dataclass(frozen=True)
class Problem:
    """What a check complains of on a host.

    ``outcome`` is fail, warn or inconclusive, ``subjects`` what it is about (``gpu3``; empty for
    the host), ``cause`` the title of the cause that explains it, empty where none does,
    ``evidence`` one line, and ``fix`` what to do.
    """

    host: str
    check: str
    outcome: str
    subjects: tuple[str, ...] = ()
    cause: str = ""
    evidence: str = ""
    fix: str = ""

    @property
    def title(self) -> str:
        """What it is called: its cause, or its check."""
        return self.cause or TITLES.get(self.check, self.check)


@dataclass(frozen=True)
class RunProblems:
    """What one run says: problems, what the site bears, and what was looked at without complaint.

    ``well`` are the checks that complained of nothing, by host; ``waived`` host and check of what
    would be a problem without a waiver.
    """

    run: str
    problems: tuple[Problem, ...]
    well: Mapping[str, frozenset[str]] = field(default_factory=dict)
    waived: frozenset[tuple[str, str]] = frozenset()


def observe(assessment: Assessment) -> RunProblems:
    """Return what a judged run says; of a check that a busy node left out it says nothing."""
    judgement, advice = assessment.judgement, assessment.advice
    fixes = {cause.title: cause.fix for cause in advice.causes.diagnoses}
    remedies = {
        (host, check, action.outcome): action.fix
        for action in advice.actions
        for host in action.hosts
        for check in action.checks or (action.check,)
    }
    problems: list[Problem] = []
    well: dict[str, frozenset[str]] = {}
    waived: set[tuple[str, str]] = set()
    in_multi_host = set(assessment.multi_host.hosts) if assessment.multi_host else set[str]()
    sets: dict[frozenset[str], frozenset[str]] = {}
    for record in assessment.run.records:
        busy = _with_state(record, (BUSY,))
        by_check: dict[str, list[Finding]] = {}
        for finding in judgement.by_host.get(record.host, ()):
            if finding.waived:
                waived.add((record.host, finding.check))
            elif finding.outcome != "pass" and finding.check not in busy and not _ended(finding):
                by_check.setdefault(finding.check, []).append(finding)
        if WHOLE_HOST in by_check and record.report is None:
            by_check = {WHOLE_HOST: by_check[WHOLE_HOST]}
        if record.ended_by_us:  # what was not measured is nobody's fault
            kinds = {check: worst(f.outcome for f in each) for check, each in by_check.items()}
            by_check = {c: by_check[c] for c, kind in kinds.items() if kind != "inconclusive"}
        for check, findings in by_check.items():
            outcome = worst(finding.outcome for finding in findings)
            cause = _first(advice.causes.explained.get(finding, "") for finding in findings)
            remedy = fixes.get(cause) or remedies.get((record.host, check, outcome), "")
            problems.append(_problem(record.host, check, outcome, findings, cause, remedy))
        fabric = judgement.fabric if record.host in in_multi_host else ()
        if fabric and MULTI_HOST not in by_check:
            problems.append(_of_fabric(record.host, fabric))
        ended = {each.check for each in judgement.by_host.get(record.host, ()) if _ended(each)}
        looked_at = _looked_at(record, in_multi_host) - set(by_check) - ended
        looked_at -= {MULTI_HOST} if fabric else set[str]()
        well[record.host] = sets.setdefault(looked_at, looked_at)
    return RunProblems(assessment.run.meta.id, tuple(problems), well, frozenset(waived))


def not_measured(days_by_host: Mapping[str, int]) -> tuple[Problem, ...]:
    """Return the problems of hosts that no sweep came to, with the days since it last did."""
    fix = "see why each sweep left it out: at work, drained, unreachable, or no time for it"
    return tuple(
        Problem(host, NOT_MEASURED, "inconclusive", (), "", f"not measured for {days} days", fix)
        for host, days in days_by_host.items()
    )


def in_short(seen: Iterable[RunProblems]) -> dict[tuple[str, str], str]:
    """Return the gravest of what runs say of each host, a cause before a check, by run and host."""
    words: dict[tuple[str, str], str] = {}
    for run in seen:
        ranked = sorted(
            (each for each in run.problems if each.check != WHOLE_HOST),
            key=lambda each: (OUTCOMES.index(each.outcome), not each.cause),
        )
        for each in ranked:
            text = f"{each.title}: {each.evidence}" if each.evidence else each.title
            words.setdefault((run.run, each.host), text)
    return words


def _ended(finding: Finding) -> bool:
    """Whether runs over several hosts ended for a job or for the time, or went without the host.

    Nobody is at fault: what is measured too late for it is told by itself.
    """
    ended = finding.reason.code in ENDED_TOGETHER
    return finding.check == MULTI_HOST and finding.outcome == "inconclusive" and ended


def links_not_measured(which_by_host: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return the problems of hosts whose links no sweep came to, each with which these are."""
    fix = "see why no two of these hosts were free and well at once, or raise the level's budget"
    return tuple(
        Problem(host, LINKS_NOT_MEASURED, "inconclusive", (), "", line(which, LINE_CHARACTERS), fix)
        for host, which in which_by_host.items()
    )


def repeated_incidents(when_by_host: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return the problems of hosts on which repairs did not hold, each with the nights."""
    fix = "do not put it back into service with a reset: have board, links and power examined"
    return tuple(
        Problem(host, REPEATED, "warn", (), "", line(when, LINE_CHARACTERS), fix)
        for host, when in when_by_host.items()
    )


def not_drained(why_by_host: Mapping[str, str]) -> tuple[Problem, ...]:
    """Return the problems of hosts that failed and could not be drained, each with why."""
    fix = "drain it by hand, or see what keeps hwcheck from it (docs/scheduler.md)"
    return tuple(
        Problem(host, NOT_DRAINED, "fail", (), "", line(why, LINE_CHARACTERS), fix)
        for host, why in why_by_host.items()
    )


CHECK_OF = {
    not_drained: NOT_DRAINED,
    links_not_measured: LINKS_NOT_MEASURED,
    repeated_incidents: REPEATED,
}
"""The check of what each makes."""


def _of_fabric(host: str, fabric: Sequence[str]) -> Problem:
    """Return that a host is fine and what connects it with others is not: a warning of the host."""
    return Problem(
        host=host,
        check=MULTI_HOST,
        outcome="warn",
        cause=FABRIC_TITLE,
        evidence=line(fabric[0], LINE_CHARACTERS),
        fix=line(FABRIC_FIX, LINE_CHARACTERS),
    )


def _problem(
    host: str, check: str, outcome: str, findings: Sequence[Finding], cause: str, fix: str
) -> Problem:
    of_outcome = [finding for finding in findings if finding.outcome == outcome]
    subjects = sorted({line(f.subject, 80) for f in of_outcome if f.subject != "node"})
    evidence = _first(in_words(of_outcome))
    return Problem(
        host=host,
        check=check,
        outcome=outcome,
        subjects=tuple(subjects[:MOST_SUBJECTS]),
        cause=cause,
        evidence=line(evidence.removeprefix(f"{check}: "), LINE_CHARACTERS),
        fix=line(fix, LINE_CHARACTERS),
    )


def _looked_at(record: HostRecord, in_multi_host: Collection[str]) -> frozenset[str]:
    whole = {WHOLE_HOST} if record.state == "reported" else set[str]()
    between = {MULTI_HOST} if record.host in in_multi_host else set[str]()
    measured = {NOT_MEASURED} if record.report is not None else set[str]()
    return frozenset(whole | between | measured | _with_state(record, WELL))


def _with_state(record: HostRecord, states: Collection[str]) -> set[str]:
    results = record.report.results if record.report else ()
    return {result.check for result in results if result.state in states}


def _first(texts: Iterable[str]) -> str:
    return next(filter(None, texts), "")
