"""Which checks a command runs."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

from hwcheck.errors import UsageError
from hwcheck.node.wire import COLLECTIVES

USUAL = COLLECTIVES[:2]
"""Collectives that are timed where none is named: what P2P must be decided by."""

ALL = "all"
ON_DEMAND = ("gate_proof",)
"""Checks that run where they are asked for alone: they are about hwcheck and not about the node."""


def select(
    known: Iterable[str],
    only: str | None,
    skip: str | None,
    collectives: str | None = None,
    *,
    usual: Sequence[str] = USUAL,
    also: Sequence[str] = (),
) -> tuple[str, ...]:
    """Return the checks to run, in their own order.

    ``only``, ``skip`` and ``collectives`` are comma-separated, None where the flag is not given. A
    collective is a check of its name; without ``only`` and ``collectives`` those of ``usual`` are
    run. ``also`` are checks to run besides. Raises UsageError for an unknown name, with the
    nearest that is known, for a flag that names nothing, and when nothing is left.
    """
    ids = list(known)
    wanted = split("--only", only, ids, "check", "run all")
    unwanted = split("--skip", skip, ids, "check", "run all")
    timed = split("--collectives", collectives, [*COLLECTIVES, ALL], "collective", "time the usual")
    if ALL in timed:
        timed = list(COLLECTIVES)
    if not wanted:
        of_node = [i for i in ids if i not in ON_DEMAND]
        wanted = [i for i in of_node if i not in COLLECTIVES or i in (timed or usual)]
    for both in [i for i in also if i in unwanted]:
        raise UsageError(f"--skip {both}: another flag asks for it; give one of them")
    chosen = tuple(i for i in ids if i in {*wanted, *timed, *also} and i not in unwanted)
    if not chosen:
        raise UsageError("--skip leaves no check to run")
    return chosen


def split(flag: str, text: str | None, known: Sequence[str], what: str, without: str) -> list[str]:
    """Return the names that a flag was given, in the order of ``known``; none where it was not.

    ``what`` is what they name, ``without`` what happens without the flag. Raises UsageError.
    """
    if text is None:
        return []
    names = {part.strip() for part in text.split(",")} - {""}
    if not names:  # an unset variable in a script must not run everything
        raise UsageError(f"{flag} {text!r} names no {what}; leave {flag} out to {without}")
    for name in sorted(names - set(known)):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]}?" if near else "known: " + ", ".join(known)
        raise UsageError(f"{flag} {name}: no such {what}; {hint}")
    return [name for name in known if name in names]
