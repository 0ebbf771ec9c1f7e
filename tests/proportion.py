"""Whether a text is read in time in proportion to its length."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

ENOUGH_S = 0.1
"""Below, a time says nothing of how it grows."""
MOST_S = 5.0
GROWTH = 10.0
"""Four times the text takes four times as long, and 16 times where each part looks at all others;
the geometric middle of the two, and a little for a busy machine."""
MEASUREMENTS = 5
"""What else the machine does only adds to a time: the least of several is the text's own. A reader
that is in proportion mostly shows it at the first."""


def assert_in_proportion(read: Callable[[str], object], text: str) -> None:
    """Compare the CPU time of a text with that of its first and last eighth, in turns.

    A few hundred kilobytes are enough: in megabytes both only take longer.
    """
    eighth = len(text) // 8
    quarter = text[:eighth] + text[-eighth:]
    quarter_s = whole_s = float("inf")
    for _ in range(MEASUREMENTS):
        quarter_s = min(quarter_s, _cpu_s(read, quarter))
        whole_s = min(whole_s, _cpu_s(read, text))
        if whole_s < max(ENOUGH_S, GROWTH * quarter_s) or whole_s > MOST_S:
            break
    assert whole_s < MOST_S
    assert whole_s < max(ENOUGH_S, GROWTH * quarter_s)


def _cpu_s(read: Callable[[str], object], text: str) -> float:
    """What this thread took; collecting garbage would cost what other tests left in memory."""
    gc.disable()
    try:
        begin = time.thread_time()
        read(text)
        return time.thread_time() - begin
    finally:
        gc.enable()
