"""Names that somebody asks for: known to the history, or refused with the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

from hwcheck.errors import UsageError
from hwcheck.history.views import History
from hwcheck.text import line


def known_hosts(history: History, names: Iterable[str]) -> None:
    """Raise UsageError, with the nearest, for the name of a host that no run visited."""
    known = [row[0] for row in history.rows("SELECT DISTINCT host FROM hosts")]
    for name in names:
        one_known("host", name, known)


def one_known(what: str, name: str, known: Collection[str]) -> str:
    """Return the name. Raises UsageError, with the nearest, where it is not known."""
    if name in known:
        return name
    part = name.lower()
    holding = [each for each in known if part and part in each.lower()]
    holding.sort(key=lambda each: (not each.lower().startswith(part), len(each)))
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5) or holding
    hint = f"did you mean {line(near[0], 80)}?" if near else f"the history has {len(known)} of them"
    raise UsageError(f"{line(name, 80)}: no such {what} in the history; {hint}")
