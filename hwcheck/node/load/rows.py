"""Samples in columns, bounded in number however long they are taken."""

from __future__ import annotations

from functools import partial, reduce
from math import inf
from typing import (
    Callable,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    Optional,
    Sequence,
    Set,
    Tuple,
    TypeVar,
)

from hwcheck.contract.load_run import Bits, Series

ROW_LIMIT = 2000
"""6 min 40 s at 5 Hz: a standard load with its cool-down stays as it was sampled."""
FIRST_ROWS, HELD_ROWS, LAST_ROWS = 25, 300, 450
"""What stays as it was sampled in any case, at 5 Hz: the 5 s of the baseline, the first minute of
the load, and 90 s at the end, the cool-down of a burn-in and what comes before it."""

Values = Mapping[str, Mapping[str, float]]
"""Subject -> quantity -> value."""
Columns = Dict[str, Dict[str, List[Optional[float]]]]
Part = Tuple[int, int]
T = TypeVar("T")


class Rows:
    """Grows by one row at a time; at ``limit`` rows neighbors become one.

    Hours of load so take as much room as minutes. A merged row keeps what a fault would show: the
    highest temperature, power and traffic, the lowest clock, margin and PCIe link, every
    clock-event bit that was set in one of them, and the last count of what counts up. Its time is
    that of the last one. That is the picture. What is judged is beside it: of each merged row one
    sample as it was, and how often each value of the clock-event bits was told.
    """

    def __init__(
        self, limit: int = ROW_LIMIT, first: int = FIRST_ROWS, last: int = LAST_ROWS
    ) -> None:
        self._limit, self._free, self._last = limit, first, last
        self._times: List[float] = []
        self._weights: List[float] = []
        """Samples of each row; infinite for one that is never merged."""
        self._columns: Columns = {}
        self._typical: Columns = {}
        self._bits: Dict[str, List[Bits]] = {}
        """Both as far as rows were looked at for merging."""
        self._stride = 1

    def append(self, time_s: float, values: Values) -> None:
        """Take what was told at a time; what was not told is None there."""
        if len(self._times) == self._limit:
            self._merge()
        self._times.append(time_s)
        self._weights.append(inf if self._free > 0 else 1)
        self._free -= 1
        for quantities in self._columns.values():
            for column in quantities.values():
                column.append(None)
        for subject, sample in values.items():
            quantities = self._columns.setdefault(subject, {})
            for name, value in sample.items():
                quantities.setdefault(name, [None] * len(self._times))[-1] = value

    def hold(self, rows: int = HELD_ROWS) -> None:
        """Let the next so many rows stay as they are sampled."""
        self._free = rows

    def last(self, seconds: float, quantities: Iterable[str], zero_s: float = 0.0) -> Series:
        """Return the last so many seconds of these quantities, times counted from ``zero_s``."""
        first = len(self._times)
        while first and self._times[first - 1] >= self._times[-1] - seconds:
            first -= 1
        return self._from(first, zero_s, set(quantities))

    def series(self, zero_s: float = 0.0) -> Series:
        """Return everything, times counted from ``zero_s``."""
        series = self._from(0, zero_s, set().union(*self._columns.values()))
        if self._stride == 1:
            return series
        typical, bits = self._beside()
        return Series(
            series.time_s,
            series.columns,
            {
                of: {name: tuple(column) for name, column in quantities.items()}
                for of, quantities in typical.items()
            },
            {of: tuple(column) for of, column in bits.items()},
        )

    def _from(self, first: int, zero_s: float, wanted: Set[str]) -> Series:
        columns = {
            subject: {
                name: tuple(quantities[name][first:]) for name in quantities if name in wanted
            }
            for subject, quantities in self._columns.items()
        }
        return Series(tuple(time_s - zero_s for time_s in self._times[first:]), columns)

    def _beside(self) -> Tuple[Columns, Dict[str, List[Bits]]]:
        """Return a sample of each row, and its clock-event bits; a row is its own at first."""
        typical: Columns = {}
        bits: Dict[str, List[Bits]] = {}
        for subject, quantities in self._columns.items():
            before = self._typical.get(subject, {})
            typical[subject] = {}
            for name, column in quantities.items():
                merged_before = before.get(name, [])
                typical[subject][name] = merged_before + column[len(merged_before) :]
            if "clock_events" in quantities:
                counted = self._bits.get(subject, [])
                rest = quantities["clock_events"][len(counted) :]
                bits[subject] = counted + [{} if each is None else {int(each): 1} for each in rest]
        return typical, bits

    def _merge(self) -> None:
        """Make room for a quarter of the limit, as evenly as the rows were sampled."""
        typical, bits = self._beside()
        parts = list(self._parts())
        while len(parts) > self._limit * 3 // 4:
            self._stride *= 2
            parts = list(self._parts())
        self._times = [self._times[end - 1] for _, end in parts]
        self._weights = [sum(self._weights[begin:end]) for begin, end in parts]
        for of, quantities in self._columns.items():
            for name, column in quantities.items():
                quantities[name] = _joined(column, parts, partial(reduce, partial(merged, name)))
                typical[of][name] = _joined(typical[of][name], parts, _first)
            if of in bits:
                bits[of] = _joined(bits[of], parts, _sum)
        self._typical, self._bits = typical, bits

    def _parts(self) -> Iterator[Part]:
        """Yield from where to where rows become one: as many as make ``_stride`` samples."""
        rows = len(self._times)
        begin, weight = 0, 0.0
        for row in range(rows):
            alone = self._weights[row] >= self._stride or row >= rows - self._last
            if alone and row > begin:
                yield begin, row
                begin, weight = row, 0.0
            weight += self._weights[row]
            if alone or weight >= self._stride:
                yield begin, row + 1
                begin, weight = row + 1, 0.0


def _joined(values: List[T], parts: Sequence[Part], join: Callable[[List[T]], T]) -> List[T]:
    return [values[begin] if end - begin == 1 else join(values[begin:end]) for begin, end in parts]


def _first(values: List[Optional[float]]) -> Optional[float]:
    return next((value for value in values if value is not None), None)


def _sum(parts: List[Bits]) -> Bits:
    counts: Dict[int, int] = {}
    for part in parts:
        for value, count in part.items():
            counts[value] = counts.get(value, 0) + count
    return counts


def merged(quantity: str, first: Optional[float], second: Optional[float]) -> Optional[float]:
    """Return what stands for two values of a quantity, the second told later; see ``Rows``."""
    if first is None or second is None:
        return second if first is None else first
    if quantity == "clock_events":
        return int(first) | int(second)
    if quantity.endswith(("_clock_mhz", "margin_c", "_generation", "_width")):
        return min(first, second)
    if quantity in ("ecc_uncorrected", "ecc_corrected", "pcie_replays"):
        return second
    return max(first, second)
