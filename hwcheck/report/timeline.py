"""The run over time: when each host was visited, for how long, and which took longest."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone

from hwcheck.judge.records import OUTCOMES, Judgement
from hwcheck.report.shapes import drawing, path, words
from hwcheck.results.run_folder import Run
from hwcheck.text import duration, line

WIDTH, NAMES = 640.0, 130.0
HEIGHT_OF_ALL = 320.0
NAMED_ROWS = 24
"""So many hosts have their names beside their bars."""
MOST_NAMED = 3
NAME_CHARACTERS = 18
SIGNS = {"fail": "\u2715", "inconclusive": "?", "warn": "!"}


@dataclass(frozen=True)
class VisitBar:
    """When a host's visit began, in s after the first one, and how long it took, in s."""

    host: str
    outcome: str
    begin_s: float
    length_s: float


@dataclass(frozen=True)
class Timeline:
    """The drawing, and in words what it shows."""

    svg: str
    in_words: str


def timeline(run: Run, judgement: Judgement) -> Timeline | None:
    """Return the timeline; None where fewer than two visits say when they were."""
    outcomes = {host.host: host.outcome for host in judgement.hosts}
    timed = [
        (record.host, began.timestamp(), float(record.duration_s))
        for record in run.records
        if record.duration_s > 0 and (began := _time(record.started)) is not None
    ]
    if len(timed) < 2:
        return None
    first = min(began for _, began, _ in timed)
    visits = sorted(
        (VisitBar(host, outcomes[host], began - first, length) for host, began, length in timed),
        key=lambda visit: (visit.begin_s, visit.host),
    )
    span = max(visit.begin_s + visit.length_s for visit in visits)
    longest = sorted(visits, key=lambda visit: -visit.length_s)[:MOST_NAMED]
    middle = sorted(visit.length_s for visit in visits)[len(visits) // 2]
    text = (
        f"{len(visits)} visits in {_s(span)}; half of them took {_s(middle)} or less; longest: "
        + ", ".join(f"{visit.host} {_s(visit.length_s)}" for visit in longest)
    )
    return Timeline(_svg(visits, span, text), text)


def _svg(visits: list[VisitBar], span: float, label: str) -> str:
    named = len(visits) <= NAMED_ROWS
    left = NAMES if named else 0.0
    row = 18.0 if named else max(0.4, HEIGHT_OF_ALL / len(visits))
    scale = (WIDTH - left) / (span or 1.0)
    steps = dict.fromkeys(OUTCOMES, "")
    parts = []
    for at, visit in enumerate(visits):
        x, y = left + visit.begin_s * scale, at * row
        height = row - 6 if named else row
        width = max(1.5, visit.length_s * scale)
        steps[visit.outcome if named else "pass"] += (
            f"M{x:.1f} {y:.1f}h{width:.1f}v{height:.1f}h-{width:.1f}z"
        )
        if named:
            name = f"{SIGNS.get(visit.outcome, '')} {line(visit.host, NAME_CHARACTERS)}".strip()
            parts.append(words(0, y + 11, name, "", "start"))
    parts += [path(path_of, f"bar {outcome}") for outcome, path_of in steps.items() if path_of]
    bottom = len(visits) * row
    parts.append(path(f"M{left:g} {bottom:.1f}H{WIDTH:g}", "axis"))
    parts.append(words(left, bottom + 16, "0 s", "", "start"))
    parts.append(words(WIDTH, bottom + 16, _s(span), "", "end"))
    return drawing(WIDTH, bottom + 22, label, parts)


def _s(seconds: float) -> str:
    return duration(seconds * 1e6) if seconds < 600 else f"{seconds / 60:.0f} min"


def _time(text: str) -> datetime | None:
    try:
        return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        return None
