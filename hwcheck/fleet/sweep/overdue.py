"""How long ago the sweeps of an inventory came to their end: the dead man's switch. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from hwcheck.fleet.sweep.candidates import age_text
from hwcheck.fleet.sweep.levels import Level
from hwcheck.fleet.sweep.request import BESIDE_JOBS
from hwcheck.fleet.sweep.state import Finished, SweepState, parsed
from hwcheck.fold import fold
from hwcheck.text import line
from hwcheck.times import length_text

OVERDUE = 1.5
"""So many times ``every`` after the last sweep of a level one is missing: a night has its length,
and a timer its random delay."""


@dataclass(frozen=True)
class LevelStatus:
    """The last sweep of a level that came to its end, and how old that is; None without any.

    ``missing_s`` is for how long there was none: what looks beside jobs gives way to a night.
    """

    level: Level
    finished: Finished | None
    age_s: float | None
    missing_s: float | None

    @property
    def is_overdue(self) -> bool:
        """Whether a sweep of this level is missing."""
        return self.missing_s is not None and self.missing_s > OVERDUE * self.level.every_s

    def text(self) -> str:
        """Say it in one line."""
        if self.finished is None or self.age_s is None:
            return f"{self.level.name}: never swept"
        last = self.finished
        text = f"{self.level.name}: finished {last.at}, {age_text(self.age_s)} ago: "
        text += f"{last.due} due, {last.measured} measured"
        if last.late:
            text += f", {len(last.late)} not measured for more than "
            text += length_text(self.level.at_latest_s)
        if self.is_overdue:
            text += f"; overdue: every {length_text(self.level.every_s)}"
        return text


def level_statuses(
    levels: Sequence[Level], state: SweepState, now: datetime, held_by: str = ""
) -> list[LevelStatus]:
    """Return the status of each level. An age is not below 0; ``held_by`` is who sweeps now."""
    ages_s = {
        name: max(0.0, (now - parsed(each.at)).total_seconds())
        for name, each in state.finished.items()
    }
    made = []
    for level in levels:
        age_s = missing_s = ages_s.get(level.name)
        if age_s is not None and not level.load:
            by_night = bool(held_by) and not held_by.startswith(BESIDE_JOBS)
            missing_s = 0.0 if by_night else min(ages_s.values())
        made.append(LevelStatus(level, state.finished.get(level.name), age_s, missing_s))
    return made


def is_overdue(statuses: list[LevelStatus]) -> bool:
    """Whether a sweep is missing: of a level that was ever swept, or because none ever was."""
    swept = [each for each in statuses if each.finished]
    return not swept or any(each.is_overdue for each in swept)


def status_lines(statuses: list[LevelStatus], state: SweepState, held_by: str) -> list[str]:
    """Say how the sweeps of an inventory stand; ``held_by`` is who sweeps now, or empty."""
    lines = [f"under way: {held_by}" if held_by else "no sweep is under way"]
    if state.under_way and not held_by:
        lines.append(f"cut off: the sweep that began at {state.under_way.began}")
    lines += [each.text() for each in statuses]
    finished = [each.finished for each in statuses if each.finished]
    for words, hosts in (
        ("not measured in time", [host for each in finished for host in each.late]),
        ("links not measured in time", [host for each in finished for host in each.late_links]),
        ("first the next time", list(state.waiting)),
        ("failed, and not drained", list(state.undrained)),
    ):
        if hosts:
            lines.append(f"{words}: {line(fold(dict.fromkeys(hosts)), 1000)}")
    if is_overdue(statuses):
        lines.append("a sweep is overdue: is its timer running?")
    return lines
