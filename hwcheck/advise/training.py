"""What to do about what a training benchmark found."""

from __future__ import annotations

from collections.abc import Iterable

from hwcheck.advise.records import Action
from hwcheck.judge.records import TRAINING, Finding
from hwcheck.text import line

MOST_LINES = 8
WORDS = {
    "wrong loss": (
        "the strategy computes something else than one process: data that is damaged on its way, "
        "or a torch whose strategy is wrong",
        "see whether the leg p2p_off has the right loss: then peer access damages data; where "
        "every leg is wrong, another torch",
    ),
    "hang": (
        "ranks wait for each other: peer access that does not work, a link that lost its other end",
        "read the stacks in the report; hwcheck validate times each collective under every leg",
    ),
    "failed": ("a rank broke", "the reason names rank and host; its last lines are in the report"),
    "out of memory": (
        "the model does not fit by this strategy",
        "take a smaller --micro-batch, or a strategy that shards more",
    ),
}
OTHER = ("it could not be measured", "the reason says why; run again once it is gone")


def training_actions(findings: Iterable[Finding]) -> tuple[Action, ...]:
    """Return one action for each kind of trouble."""
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        if finding.check == TRAINING and finding.outcome != "pass" and not finding.waived:
            kind = next((kind for kind in WORDS if f": {kind}: " in finding.reason), "")
            groups.setdefault((finding.outcome, kind), []).append(finding)
    made = []
    for (outcome, kind), of_kind in groups.items():
        cause, fix = WORDS.get(kind, OTHER)
        lines = [line(f"{one.host}: {one.reason}", 400) for one in of_kind]
        more = len(lines) - MOST_LINES
        shown = lines[:MOST_LINES] + ([f"and {more} more"] if more > 0 else [])
        hosts = tuple(dict.fromkeys(one.host for one in of_kind))
        title = f"training: {kind or 'not measured'}"
        made.append(
            Action(TRAINING, outcome, cause, fix, "", "", hosts, tuple(dict.fromkeys(shown)), title)
        )
    return tuple(made)
