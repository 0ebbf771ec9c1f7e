"""Names that somebody asks for: known to the history, or refused with the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from hwcheck.errors import UsageError
from hwcheck.history.views import History
from hwcheck.text import line


def refuse_unknown_hosts(history: History, names: Iterable[str]) -> None:
    """Raise UsageError, with the nearest, for the name of a host that no run visited."""
    names_in_runs = [row[0] for row in history.rows("SELECT DISTINCT host FROM hosts")]
    for name in names:
        name_among("host", name, names_in_runs)


def name_among(what: str, name: str, choices: Collection[str]) -> str:
    """Return the name. Raises UsageError, with the nearest, where it is not known."""
    if name in choices:
        return name
    part = name.lower()
    holding = [each for each in choices if part and part in each.lower()]
    holding.sort(key=lambda each: (not each.lower().startswith(part), len(each)))
    near = difflib.get_close_matches(name, choices, n=1, cutoff=0.5) or holding
    hint = (
        f"did you mean {line(near[0], 80)}?" if near else f"the history has {len(choices)} of them"
    )
    raise UsageError(f"{line(name, 80)}: no such {what} in the history; {hint}")
