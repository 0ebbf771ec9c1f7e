"""Which checks a command runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from hwcheck.errors import UsageError


def select(known: Iterable[str], only: str | None, skip: str | None) -> tuple[str, ...]:
    """Return the checks to run, in their own order.

    ``only`` and ``skip`` are comma-separated check ids, None where the flag is not given. Raises
    UsageError for an unknown id, with the nearest that is known, for a flag that names no check,
    and when nothing is left.
    """
    ids = list(known)
    wanted = _split("--only", only, ids)
    unwanted = _split("--skip", skip, ids)
    chosen = tuple(i for i in ids if (not wanted or i in wanted) and i not in unwanted)
    if not chosen:
        raise UsageError("--skip leaves no check to run")
    return chosen


def _split(flag: str, text: str | None, known: list[str]) -> set[str]:
    if text is None:
        return set()
    names = {part.strip() for part in text.split(",")} - {""}
    if not names:  # an unset variable in a script must not run everything
        raise UsageError(f"{flag} {text!r} names no check; leave {flag} out to run all")
    for name in sorted(names - set(known)):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "known: " + ", ".join(known)
        raise UsageError(f"{flag} {name}: no such check; {hint}")
    return names
