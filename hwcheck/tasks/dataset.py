"""What the commands of the history share: their flags, and the folder of runs opened."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta, timezone
from pathlib import Path

from hwcheck.errors import UsageError
from hwcheck.history.dataset import KINDS
from hwcheck.history.views import History
from hwcheck.render.history import left_out_lines
from hwcheck.results.files import replace_file
from hwcheck.tasks.output import say

RUNS = "runs"
RUNS_HELP = {"runs": f"folder of the run folders (default: {RUNS})"}
SINCE_HELP = {"since": "only runs from this day (2026-01-31) or of so long (30d, 12h)"}
UNITS = {"d": "days", "h": "hours", "w": "weeks"}
OPEN: list[History] = []
_LENGTH = re.compile(r"([0-9]{1,5})([dhw])")


@contextmanager
def history_of(
    runs: str, only: Collection[str] = (), kinds: Sequence[str] = KINDS
) -> Iterator[History]:
    """Open the history of a folder, and name the folders that are left out. Raises UsageError.

    It is left open (``OPEN``): as a rule the process ends with the command, and to free what a year
    of files says of itself takes a twentieth of a second.
    """
    if not runs.strip():
        raise UsageError("--runs is empty; name the folder of the runs, or leave --runs out")
    history = History.open(Path(runs), only=only, kinds=kinds)
    OPEN.append(history)
    yield history
    for text in left_out_lines(history.left_out):
        say(f"hwcheck: {text}")


def write_picture(output: str, picture: bytes) -> None:
    """Write a picture or page as a whole, and say where it is. Raises UsageError."""
    try:
        replace_file(Path(output), picture)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
    say(f"hwcheck: {output}")


def since_time(flag: str, text: str) -> datetime | None:
    """Return the time (UTC) of ``30d``, ``12h`` or ``2026-01-31``; None for an empty text.

    Raises UsageError.
    """
    if not text:
        return None
    now = datetime.now(timezone.utc).replace(tzinfo=None)
    length = _LENGTH.fullmatch(text)
    try:
        if length:
            return now - timedelta(**{UNITS[length[2]]: int(length[1])})
        return datetime.combine(date.fromisoformat(text), time())
    except (ValueError, OverflowError):
        raise UsageError(f"{flag} {text[:40]}: it takes a day (2026-01-31) or 30d, 12h") from None
