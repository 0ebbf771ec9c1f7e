"""Which hosts are drained for what a sweep measured, and which of those are well again. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from hwcheck.fleet.sweep.levels import RANK
from hwcheck.fleet.sweep.visits import PastVisit
from hwcheck.text import line

PURPOSE = "sweep"
WELL = ("pass", "warn")
CHARACTERS = 180
"""It is the reason of a drain, of 200 characters with what is before it."""
_EVIDENCE = re.compile(r"([a-z]+) ([0-9A-Za-z._-]+): ")


def evidence(level: str, run: str, words: str) -> str:
    """Return what a drain is reasoned with: ``nightly 20270131T023000Z-1f2e: nvlink: 2 down``."""
    return line(f"{level} {run}: {words}", CHARACTERS)


def of_evidence(reason: str) -> tuple[str, str]:
    """Return level and run of what ``evidence`` made; two empty texts where it is none of those."""
    match = _EVIDENCE.match(reason)
    return (match[1], match[2]) if match and match[1] in RANK else ("", "")


def to_drain(
    former: Mapping[str, str], visits: Iterable[PastVisit], words: Mapping[tuple[str, str], str]
) -> dict[str, str]:
    """Return the hosts that failed and were not well since, each with its evidence.

    ``former`` are those of the sweep before, with theirs; ``visits`` are those since, the oldest
    first, and ``words`` what is wrong by run and host.
    """
    kept = dict(former)
    for visit in visits:
        level, _ = of_evidence(kept.get(visit.host, ""))
        if failed(visit):
            what = words.get((visit.run, visit.host), "it failed")
            kept[visit.host] = evidence(_heavier(level, visit.level), visit.run, what)
        elif level and is_well(visit, level):
            del kept[visit.host]
    return kept


def why_not_released(reason: str, visits: Iterable[PastVisit]) -> str:
    """Return why a host stays drained, or an empty text where it was well since.

    ``reason`` is the evidence of its drain, ``visits`` are all of the host's, the oldest first.
    Well is: at the level at which it failed, or a heavier one, and since then it did not fail.
    """
    level, run = of_evidence(reason)
    if not level:
        return "its reason names no run; look at the node, and resume it by hand"
    since, open_level = run, level
    for visit in visits:
        if visit.run <= run:
            continue
        if failed(visit):
            since, open_level = visit.run, _heavier(open_level, visit.level)
        elif open_level and is_well(visit, open_level):
            open_level = ""
    if not open_level:
        return ""
    return f"it failed in {since}, and was not measured well at {open_level} since"


def failed(visit: PastVisit) -> bool:
    """Whether the host failed in a run that had the checks of a level."""
    return visit.state == "reported" and visit.outcome == "fail" and visit.level in RANK


def is_well(visit: PastVisit, level: str = "") -> bool:
    """Whether the host was measured at this level (any), or a heavier one, and did not fail."""
    return visit.outcome in WELL and visit.measured_at(level or visit.level)


def _heavier(one: str, other: str) -> str:
    return max(one, other, key=lambda level: RANK.get(level, -1))
