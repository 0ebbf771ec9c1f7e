"""How collectives are timed: nccl-tests' flags, from text to the request."""

from __future__ import annotations

import re

from hwcheck.errors import UsageError
from hwcheck.node.wire import DTYPES, LEGS, Timing
from hwcheck.tasks.command import one_of, whole
from hwcheck.tasks.selection import split
from hwcheck.text import binary_size

LEAST_BYTES, MOST_BYTES = 8, 64 << 30
"""nccl-tests' own examples begin at 8 bytes (README.md)."""
MOST_REPETITIONS = 100_000
MOST_FACTOR = 1024

_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([KMGkmg]?)B?")
_SCALE = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def timing(
    *,
    legs: str | None,
    minbytes: str,
    maxbytes: str,
    stepfactor: str,
    iters: str,
    warmup_iters: str,
    datatype: str,
) -> Timing:
    """Return what these flags say; an empty text leaves the default. Raises UsageError."""
    usual = Timing()
    least = size("--minbytes", minbytes) if minbytes else usual.min_bytes
    most = size("--maxbytes", maxbytes) if maxbytes else max(usual.max_bytes, least)
    if not minbytes:
        least = min(least, most)
    if least > most:
        raise UsageError(f"--minbytes {minbytes}: it is more than --maxbytes {maxbytes}")
    if datatype:
        one_of("--datatype", datatype, DTYPES)
    return Timing(
        legs=tuple(split("--legs", legs, LEGS, "leg", "time all that can differ")),
        min_bytes=least,
        max_bytes=most,
        step_factor=_number("--stepfactor", stepfactor, usual.step_factor, 2, MOST_FACTOR),
        iterations=_number("--iters", iters, usual.iterations, 1, MOST_REPETITIONS),
        warmups=_number("--warmup-iters", warmup_iters, usual.warmups, 0, MOST_REPETITIONS),
        dtype=datatype or usual.dtype,
    )


def size(flag: str, text: str) -> int:
    """Return the bytes of a size as nccl-tests takes it: ``1048576``, ``1M``, ``0.5G``.

    Suffixes are binary. Raises UsageError.
    """
    found = _SIZE.fullmatch(text)
    count = int(float(found.group(1)) * _SCALE[found.group(2).lower()]) if found else 0
    if not LEAST_BYTES <= count <= MOST_BYTES:
        border = f"{binary_size(LEAST_BYTES)} to {binary_size(MOST_BYTES)}"
        raise UsageError(f"{flag} {text}: it takes bytes, or 64K, 8M, 0.5G, from {border}")
    return count


def _number(flag: str, text: str, usual: int, least: int, most: int) -> int:
    if not text:
        return usual
    number = whole(flag, text, least)
    if number > most:
        raise UsageError(f"{flag} {text}: at most {most}")
    return number
