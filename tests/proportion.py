"""Whether a text is read in time in proportion to its length."""

from __future__ import annotations

import time
from collections.abc import Callable

SHORT_S = 0.1
"""Below, a time says nothing of how it grows."""
MOST_S = 5.0
GROWTH = 10.0
"""Four times the text takes four times as long, and 16 times where each part looks at all others;
the geometric middle of the two, and a little for a busy machine."""


def assert_in_proportion(read: Callable[[str], object], text: str) -> None:
    """Compare the CPU time of a text with that of its first and last eighth, the least of three.

    A few hundred kilobytes are enough: in megabytes both only take longer.
    """
    eighth = len(text) // 8
    quarter = text[:eighth] + text[-eighth:]
    quarter_s = min(_cpu_s(read, quarter) for _ in range(3))
    whole_s = _cpu_s(read, text)
    assert whole_s < MOST_S
    assert whole_s < max(SHORT_S, GROWTH * quarter_s)


def _cpu_s(read: Callable[[str], object], text: str) -> float:
    begin = time.process_time()
    read(text)
    return time.process_time() - begin
