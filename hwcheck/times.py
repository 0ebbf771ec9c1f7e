"""A length of time as people write it, in flags and in files: ``90``, ``90s``, ``45m``, ``8h``."""

from __future__ import annotations

import re

UNITS_S = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 7 * 86_400.0}
"""The letters behind a number; a bare number is seconds."""
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)([smhdw]?)")


def length_s(text: str) -> float:
    """Return the seconds of ``90``, ``90s``, ``1.5h``, ``7d`` or ``4w``: more than none.

    Raises ValueError, which says what it takes.
    """
    match = _LENGTH.fullmatch(text)
    seconds = float(match[1]) * UNITS_S[match[2]] if match else 0.0
    if not seconds:
        raise ValueError(f"{text[:40]!r} is no time; it takes seconds, or 45m, 8h, 7d, 4w")
    return seconds


def length_text(seconds: float) -> str:
    """Return a time in its largest unit that leaves no rest: ``2h``, ``90m``."""
    for unit, unit_s in reversed(UNITS_S.items()):
        if seconds >= unit_s and (seconds / unit_s).is_integer():
            return f"{seconds / unit_s:.0f}{unit}"
    return f"{seconds:.0f}s"
