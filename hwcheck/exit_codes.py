"""Exit codes of the commands, of their stages, and of several stages together."""

from __future__ import annotations

from collections.abc import Iterable

PASS = 0
FAILED = 1
USAGE = 2
"""The command line or the inventory cannot be used; nothing was changed."""
NOT_MEASURED = 3
INTERRUPTED = 130
"""As a shell has it for a command that SIGINT ended: 128 + 2."""

BY_OUTCOME = {"pass": PASS, "warn": PASS, "fail": FAILED, "inconclusive": NOT_MEASURED}
"""The exit code of a judged run, of a host, or of assertions."""

GRAVITY = (PASS, NOT_MEASURED, FAILED, USAGE, INTERRUPTED)
"""From the least grave to the gravest."""


def combine(codes: Iterable[int]) -> int:
    """Return the gravest of these exit codes; 0 without any. Raises ValueError for another code."""
    return max(codes, key=GRAVITY.index, default=PASS)
