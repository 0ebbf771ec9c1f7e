"""Samples in columns, bounded in number however long they are taken."""

from __future__ import annotations

from typing import Dict, Iterable, List, Mapping, Optional, Set

from hwcheck.node.load.records import Column, Series

ROW_LIMIT = 2000
"""6 min 40 s at 5 Hz: a standard load with its cool-down stays as it was sampled."""

Values = Mapping[str, Mapping[str, float]]
"""Subject -> quantity -> value."""


class Rows:
    """Grows by one row at a time; at ``limit`` rows neighbors become one, and so from then on.

    Hours of load so take as much room as minutes: between half the limit and the limit, evenly
    spaced. A merged row keeps what a fault would show: the highest temperature, power and traffic,
    the lowest clock and PCIe link, every clock-event bit that was set in one of them, and the last
    count of what counts up. Its time is that of the last one. A share of time with some bit is
    therefore an upper bound once rows were merged, and is exact before.
    """

    def __init__(self, limit: int = ROW_LIMIT) -> None:
        self._limit = limit - limit % 2
        self._times: List[float] = []
        self._columns: Dict[str, Dict[str, List[Optional[float]]]] = {}
        self._stride = 1
        self._in_last = 0

    def append(self, time_s: float, values: Values) -> None:
        """Take what was told at a time; what was not told is None there."""
        if 0 < self._in_last < self._stride:
            self._times[-1] = time_s
            self._in_last += 1
        else:
            self._begin(time_s)
        for subject, told in values.items():
            own = self._columns.setdefault(subject, {})
            for name, value in told.items():
                column = own.setdefault(name, [None] * len(self._times))
                column[-1] = merged(name, column[-1], value)

    def last(self, seconds: float, quantities: Iterable[str], zero_s: float = 0.0) -> Series:
        """Return the last so many seconds of these quantities, times counted from ``zero_s``."""
        first = len(self._times)
        while first and self._times[first - 1] >= self._times[-1] - seconds:
            first -= 1
        return self._from(first, zero_s, set(quantities))

    def series(self, zero_s: float = 0.0) -> Series:
        """Return everything, times counted from ``zero_s``."""
        return self._from(0, zero_s, set().union(*self._columns.values()))

    def _from(self, first: int, zero_s: float, wanted: Set[str]) -> Series:
        columns: Dict[str, Dict[str, Column]] = {
            subject: {name: tuple(own[name][first:]) for name in own if name in wanted}
            for subject, own in self._columns.items()
        }
        return Series(tuple(time_s - zero_s for time_s in self._times[first:]), columns)

    def _begin(self, time_s: float) -> None:
        if len(self._times) == self._limit:
            self._halve()
        self._times.append(time_s)
        self._in_last = 1
        for own in self._columns.values():
            for column in own.values():
                column.append(None)

    def _halve(self) -> None:
        self._times = self._times[1::2]
        for own in self._columns.values():
            for name, column in own.items():
                own[name] = [
                    merged(name, column[row], column[row + 1]) for row in range(0, len(column), 2)
                ]
        self._stride *= 2


def merged(quantity: str, first: Optional[float], second: Optional[float]) -> Optional[float]:
    """Return what stands for two values of a quantity, the second told later; see ``Rows``."""
    if first is None or second is None:
        return second if first is None else first
    if quantity == "clock_events":
        return int(first) | int(second)
    if quantity in ("sm_clock_mhz", "memory_clock_mhz", "pcie_generation", "pcie_width"):
        return min(first, second)
    if quantity in ("ecc_uncorrected", "ecc_corrected", "pcie_replays"):
        return second
    return max(first, second)
