"""Two legs against each other. Pure: no host, no limit, no advice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hwcheck.results import HostRecord
from hwcheck.wire import Leg, SizeTiming

LEAST_DIFFERENCE = 0.10
"""A difference that is smaller than this share is never called one, however small the spread."""

LEAST_ITERATIONS = 20
"""A size that was timed less often has no spread worth the name."""

PLAUSIBLE_BUSBW_GBPS = (1e-6, 1e6)
"""Figures outside are no measurement: one rank moves nothing, and no link moves a petabyte."""

MOST_SPREAD = 10.0


@dataclass(frozen=True)
class Comparison:
    """Two legs at one message size (bytes); busbw in 1e9 bytes/s.

    ``ratio`` is the other leg's busbw over the base leg's. ``spread`` is the sum of both relative
    spreads (inter-quartile range over median): the middle halves of the two legs' times overlap
    when the legs are nearer to each other than that.
    """

    size_bytes: int
    base_busbw_gbps: float
    other_busbw_gbps: float
    ratio: float
    spread: float

    @property
    def threshold(self) -> float:
        """The share by which one leg must be faster for the difference to count."""
        return max(LEAST_DIFFERENCE, self.spread)

    @property
    def other_wins(self) -> bool:
        """Whether the other leg is faster by more than the spread and 10 %."""
        return self.ratio > 1 + self.threshold

    @property
    def base_wins(self) -> bool:
        """Whether the base leg is faster by more than the spread and 10 %."""
        return 1 / self.ratio > 1 + self.threshold

    @property
    def differs(self) -> bool:
        """Whether the difference is beyond the spread and 10 %, either way."""
        return self.other_wins or self.base_wins


def compare(base: Leg, other: Leg) -> Comparison | None:
    """Compare two legs at the largest message size that both timed often enough.

    Returns None when there is nothing to compare: another collective, backend or number of ranks,
    no common size, or a busbw of zero (one rank moves no data).
    """
    if _kind(base) != _kind(other):
        return None
    left, right = _judged_sizes(base), _judged_sizes(other)
    common = left.keys() & right.keys()
    if not common:
        return None
    size = max(common)
    first, second = left[size], right[size]
    return Comparison(
        size_bytes=size,
        base_busbw_gbps=first.busbw_gbps,
        other_busbw_gbps=second.busbw_gbps,
        ratio=second.busbw_gbps / first.busbw_gbps,
        spread=first.spread + second.spread,
    )


def largest(leg: Leg) -> SizeTiming | None:
    """Return the largest message size that was timed often enough and has a busbw, or None."""
    sizes = _judged_sizes(leg)
    return sizes[max(sizes)] if sizes else None


def wrong_elements(leg: Leg) -> int:
    """Return how many elements came out wrong, over all sizes and ranks."""
    return sum(size.wrong for size in leg.sizes)


def is_clean(leg: Leg) -> bool:
    """Whether the leg ran to its end, measured something and every element was right."""
    return leg.state == "done" and bool(leg.sizes) and wrong_elements(leg) == 0


def is_broken(leg: Leg) -> bool:
    """Whether the leg hung or gave wrong data. A leg that failed to run proves neither."""
    return leg.state == "hang" or wrong_elements(leg) > 0


def legs_of(record: HostRecord) -> Iterator[Leg]:
    """Yield every leg that a host reported."""
    for result in record.report.results if record.report else ():
        yield from result.legs


def _kind(leg: Leg) -> tuple[str, str, int]:
    return leg.collective, leg.backend, leg.ranks


def _judged_sizes(leg: Leg) -> dict[int, SizeTiming]:
    low, high = PLAUSIBLE_BUSBW_GBPS
    return {
        size.size_bytes: size
        for size in leg.sizes
        if size.iterations >= LEAST_ITERATIONS
        and low <= size.busbw_gbps <= high
        and 0 <= size.spread <= MOST_SPREAD
    }
