"""How far a program of nccl-tests comes in its time, by the rows that it prints."""

from __future__ import annotations

import time
from typing import Callable, Optional, Tuple

from hwcheck.contract.collective_spec import NOISE, size_text
from hwcheck.node.collective.nccl_info import INIT_COMPLETE
from hwcheck.node.nccl_tests import text

NO_TIME = "stopped at %s: the next size does not fit in the time"
FEWER_CYCLES = "timed %d times and not %d: another time does not fit in the time"

PRINTED_FEWER = "timed %d times and not %d: the program ended by itself"


class Pace:
    """Ends a program before a row or a cycle that does not fit in its time; tells of every row.

    It has ``start_s`` for its contexts and its communicator, and from there on ``first_row_s`` to
    print its first row; ``log`` returns what NCCL has said so far, which tells when the one ends
    and the other begins. From its first row on it has ``seconds``: those for its first cycle, those
    for all, and the grace after which it dies.
    ``largest`` is the largest size in bytes: its row ends a cycle, and after the last of
    ``cycles`` nothing is left to end. ``stop`` says why the program was ended, and ``cut_short``
    whether that was in its first cycle. ``start_s`` are the seconds that its start took, None as
    long as there is neither a communicator nor a row, and ``first_row_after_s`` those until its
    first row.
    """

    def __init__(
        self,
        name: str,
        start_s: float,
        first_row_s: float,
        log: Callable[[], str],
        seconds: Tuple[float, float, float],
        step_factor: int,
        largest: int,
        cycles: int,
        progress: Callable[[str], None],
    ) -> None:
        self.stop = ""
        self.cut_short = False
        self.start_s: Optional[float] = None
        self.first_row_after_s: Optional[float] = None
        self._name = name
        self._begin = time.monotonic()
        self._started_by = self._begin + start_s
        self._first_row_s = first_row_s
        self._log = log
        self._first_s, self._all_s, self._grace_s = seconds
        self._growth = step_factor * NOISE
        self._last_but_one = largest // step_factor
        self._cycles = cycles
        self._progress = progress
        self._first: Optional[float] = None
        self._last = self._began = self._awaited = 0.0
        self._over = 0
        self._at_begin = True

    def until(self) -> float:
        """Return when the program is ended: the next row may take twice as long as it should."""
        if self._first is None:
            if self.start_s is None and INIT_COMPLETE in self._log():
                self._communicator_is_there()
            return self._started_by + self._first_row_s
        return max(self._first + self._all_s + self._grace_s, self._awaited)

    def measured_s(self) -> float:
        """Return the seconds from the first row to the last one."""
        return 0.0 if self._first is None else self._last - self._first

    def missing(self) -> str:
        """Return that cycles are missing of a program that ended by itself, or an empty text."""
        if self.stop or self._over >= self._cycles:
            return ""
        return PRINTED_FEWER % (self._over, self._cycles)

    def goes_on(self, line: str) -> bool:
        """Take a line of the program, and say whether the program may go on."""
        if INIT_COMPLETE in line:  # NCCL prints to stdout where it cannot open its file
            self._communicator_is_there()
        size = text.row_size(line)
        if not size:
            return True
        self._progress("%s %s" % (self._name, size_text(size)))
        now = time.monotonic()
        if self._first is None:
            self._communicator_is_there()
            self._first = self._began = now
            self.first_row_after_s = now - self._begin
        before, self._last = self._last, now
        if size > self._last_but_one:
            return self._cycle_over(now)
        at_begin, self._at_begin = self._at_begin, False
        if at_begin:
            return True
        step_s = self._growth * (now - before)
        self._awaited = now + 2 * step_s
        if now + step_s <= self._first + (self._all_s if self._over else self._first_s):
            return True
        self.cut_short = not self._over
        self.stop = NO_TIME % size_text(size) if self.cut_short else self._fewer()
        return False

    def _communicator_is_there(self) -> None:
        now = time.monotonic()
        if self.start_s is None:
            self.start_s = now - self._begin
            self._started_by = min(self._started_by, now)

    def _cycle_over(self, now: float) -> bool:
        assert self._first is not None
        took_s, self._began = now - self._began, now
        self._over += 1
        self._at_begin = True
        if self._over == self._cycles or now + took_s * NOISE <= self._first + self._all_s:
            return True
        self.stop = self._fewer()
        return False

    def _fewer(self) -> str:
        return FEWER_CYCLES % (self._over, self._cycles)
