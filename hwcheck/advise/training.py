"""What to do about what a training benchmark found."""

from __future__ import annotations

from collections.abc import Iterable

from hwcheck.advise.records import Action
from hwcheck.advise.remedies import REMEDY_OF
from hwcheck.contract import reasons
from hwcheck.judge.records import TRAINING, Finding
from hwcheck.text import line

MOST_LINES = 8
TITLES = {
    reasons.WRONG_LOSS: "wrong loss",
    reasons.HANG: "hang",
    reasons.RANK_FAILED: "failed",
    reasons.OUT_OF_MEMORY: "out of memory",
}


def training_actions(findings: Iterable[Finding]) -> tuple[Action, ...]:
    """Return one action for each kind of trouble."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.check == TRAINING and finding.outcome != "pass" and not finding.waived:
            groups.setdefault((finding.outcome, finding.reason.code), []).append(finding)
    made = []
    for (outcome, code), of_kind in groups.items():
        remedy = REMEDY_OF.get(code, REMEDY_OF[reasons.NOT_MEASURED])
        lines = [line(f"{one.host}: {one.reason}", 400) for one in of_kind]
        more = len(lines) - MOST_LINES
        shown = lines[:MOST_LINES] + ([f"and {more} more"] if more > 0 else [])
        hosts = tuple(dict.fromkeys(one.host for one in of_kind))
        title = f"training: {TITLES.get(code, 'not measured')}"
        made.append(
            Action(
                check=TRAINING,
                outcome=outcome,
                cause=remedy.cause,
                fix=remedy.fix,
                command=remedy.command,
                role=remedy.role,
                hosts=hosts,
                evidence=tuple(dict.fromkeys(shown)),
                title=title,
            )
        )
    return tuple(made)
