"""Which ``--limit`` is refused before Ansible sees it.

Ansible drops what it cannot read of a pattern, and takes a pattern with nothing left for every
host: these would all be loaded.
"""

from __future__ import annotations

import re
from pathlib import Path

from hwcheck.errors import UsageError

BRACKETS = re.compile(r"\[[^\]]*\]")


def refuse_hollow(limit: str) -> None:
    """Refuse a pattern that names nothing, or has a part that does not. Raises UsageError."""
    patterns = _lines(limit) if limit.startswith("@") and "," not in limit else [limit]
    parts = [part for pattern in patterns for part in _parts(limit, pattern)]
    if not parts:  # an unset variable in a script must not visit everything
        raise UsageError(f"--limit {limit!r} names no host; leave --limit out to visit all")
    for part in parts:
        if not part.lstrip("!&").removeprefix("~"):
            raise UsageError(f"--limit {limit}: {part!r} names no host; put a pattern behind it")


def _lines(limit: str) -> list[str]:
    path = Path(limit[1:])
    try:
        return path.read_text("utf-8", "replace").splitlines()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise UsageError(f"--limit {limit}: {path}: {reason}") from None


def _parts(limit: str, pattern: str) -> list[str]:
    whole = BRACKETS.sub("x", pattern)  # a colon in n[1:3] parts nothing
    if "[" in whole or "]" in whole:
        raise UsageError(f"--limit {limit}: a bracket has no other; write node[1:3] or node[12]")
    parts = whole.split(",") if "," in whole else re.split(r"[:\s]", whole)
    return [part.strip() for part in parts if part.strip()]
