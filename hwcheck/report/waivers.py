"""What a site bears for a time, the same in every report: each waiver with what it is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hwcheck.advise.causes import in_words
from hwcheck.fold import fold
from hwcheck.judge.records import Finding, Judgement
from hwcheck.text import line

STATES = {
    "ended": "over, and counts again",
    "holds": "waived",
    "removable": "nothing to waive, remove it",
}
"""What became of a waiver, in words: what asks for something to be done comes first."""

MOST_EVIDENCE = 4


@dataclass(frozen=True)
class WaiverView:
    """One waiver: what became of it, where, and what was measured there, one line for each value.

    ``evidence`` is empty where there is nothing to waive.
    """

    state: str
    hosts: str
    about: str
    until: str
    reason: str
    evidence: tuple[str, ...]

    @property
    def text(self) -> str:
        """It in one line."""
        parts = (f"{STATES[self.state]}: {self.about} on {self.hosts}", *self.evidence)
        return f"{'; '.join(parts)} ({self.reason}, until {self.until})"


def waiver_views(judgement: Judgement) -> tuple[WaiverView, ...]:
    """Return the waivers: those that are over, those in use, and those of no use."""
    views = [
        WaiverView(
            state=use.state,
            hosts=fold(use.hosts),
            about=line(str(use.waiver), 200),
            until=use.waiver.until,
            reason=line(use.waiver.reason),
            evidence=_evidence(
                finding
                for host in use.hosts
                for finding in judgement.by_host.get(host, ())
                if finding.outcome != "pass" and use.waiver.is_about(finding.check, finding.subject)
            ),
        )
        for use in judgement.waivers
    ]
    return tuple(sorted(views, key=lambda view: list(STATES).index(view.state)))


def _evidence(findings: Iterator[Finding]) -> tuple[str, ...]:
    lines = list(dict.fromkeys(in_words(each._replace(waived="") for each in findings)))
    more = (f"and {len(lines) - MOST_EVIDENCE} more",) if len(lines) > MOST_EVIDENCE else ()
    return (*lines[:MOST_EVIDENCE], *more)
