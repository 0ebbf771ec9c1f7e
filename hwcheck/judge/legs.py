"""Two legs against each other, and whether a leg is one. Pure: no host, no limit, no advice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from hwcheck.contract.busbw import PASSES, busbw_factor
from hwcheck.contract.collective_spec import (
    EVERY_NODE_LEGS,
    MIB,
    SECOND_TRY,
    SITE,
    SOME_NODE_LEGS,
)
from hwcheck.contract.wire import Leg, SizeTiming
from hwcheck.results.run_folder import HostRecord
from hwcheck.text import binary_size, count, line, number

LEAST_DIFFERENCE = 0.10
"""A difference that is smaller than this share is never called one, however small the spread."""

LEAST_ITERATIONS = 20
"""A size that was timed less often has no spread worth the name."""

LEAST_BYTES = 64 * MIB - 1024
"""Below this a figure is latency rather than bandwidth: it proves the data and no speed.

64 MiB less what is lost where each of up to 63 ranks has a chunk of whole 16 bytes.

A time is overhead + size / bandwidth (NVIDIA/nccl-tests, doc/PERFORMANCE.md). NCCL reckons 5.7 us
for each of the 14 steps of a ring of 8 over PCIe (NVIDIA/nccl, src/graph/tuning.cc): 80 us, as long
as 1 MiB takes at a busbw of 20 GB/s; 64 MiB takes 5.9 ms.
"""

TOLERANCE = 0.01
"""Figures that follow from one another may differ by this share: they may have been rounded."""

PLAUSIBLE_BUSBW_GBPS = (1e-6, 1e6)
"""Figures outside are no measurement: one rank moves nothing, and no link moves a petabyte."""

MOST_SPREAD = 10.0

START_SHARE = 0.5
"""A leg that had no communicator after twice the time that another took to start hangs."""


@dataclass(frozen=True)
class LegComparison:
    """Two legs at one message size (bytes); busbw in 1e9 bytes/s.

    ``ratio`` is the other leg's busbw over the base leg's. ``spread`` is the sum of both relative
    spreads: the inter-quartile range over the median, or what the medians of a leg's turns differ
    by where that is more. The middle halves of the two legs' times overlap when the legs are nearer
    to each other than that.
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


def compare(base: Leg, other: Leg) -> LegComparison | None:
    """Compare two legs at the largest message size that both timed.

    Returns None when there is nothing to compare: another collective, backend, type or number of
    ranks, no common size, or at the largest of them too few iterations or a busbw that cannot be
    (one rank moves no data). A smaller size never stands in for it.
    """
    if _kind(base) != _kind(other):
        return None
    left, right = ({size.size_bytes: size for size in leg.sizes} for leg in (base, other))
    common = left.keys() & right.keys()
    if not common:
        return None
    first, second = left[max(common)], right[max(common)]
    if not (_is_judged(first) and _is_judged(second)):
        return None
    return LegComparison(
        size_bytes=first.size_bytes,
        base_busbw_gbps=first.busbw_gbps,
        other_busbw_gbps=second.busbw_gbps,
        ratio=second.busbw_gbps / first.busbw_gbps,
        spread=sum(max(size.spread, size.pass_spread) for size in (first, second)),
    )


def largest(leg: Leg) -> SizeTiming | None:
    """Return the largest message size, or None where its figures cannot be judged."""
    size = max(leg.sizes, key=lambda size: size.size_bytes, default=None)
    return size if size is not None and _is_judged(size) else None


def wrong_elements(leg: Leg) -> int:
    """Return how many elements came out wrong, over all sizes and ranks."""
    return sum(size.all_wrong for size in leg.sizes)


def is_clean(leg: Leg) -> bool:
    """Whether the leg ran to its end, measured something and every element was right."""
    return leg.state == "done" and bool(leg.sizes) and wrong_elements(leg) == 0


def is_broken(leg: Leg) -> bool:
    """Whether the leg hung or gave wrong data. A leg that failed to run proves neither."""
    return leg.state == "hang" or wrong_elements(leg) > 0


def start_hang(leg: Leg, legs: Iterable[Leg]) -> str:
    """Return why a leg that did not start hangs, from the node's others; otherwise an empty text.

    Where another leg of the collective ran to its end and started in less than half of the time
    that this one had, it is not the machine that is slow.
    """
    if leg.state != "not_started" or leg.start_s is None:
        return ""
    for other in legs:
        if other.collective != leg.collective or not is_clean(other) or other.start_s is None:
            continue
        if other.start_s < START_SHARE * leg.start_s:
            reason = line(leg.reason.text, 120)
            words = f"it hangs at start: {reason}; {line(other.leg, 60)} started in"
            return f"{words} {number(other.start_s)} s{_last_of_nccl(leg)}"
    return ""


def _last_of_nccl(leg: Leg) -> str:
    lines = [
        text for text in leg.log_tail.splitlines() if "NCCL INFO" in text or "NCCL WARN" in text
    ]
    return f"; NCCL's last line: {line(lines[-1], 160)}" if lines else ""


def legs_of(record: HostRecord) -> Iterator[Leg]:
    """Yield every leg that a host reported."""
    for result in record.report.results if record.report else ():
        yield from result.legs


def _kind(leg: Leg) -> tuple[str, str, str, int]:
    return leg.collective, leg.backend, leg.dtype, leg.ranks


def _is_judged(size: SizeTiming) -> bool:
    low, high = PLAUSIBLE_BUSBW_GBPS
    return (
        size.iterations >= LEAST_ITERATIONS
        and low <= size.busbw_gbps <= high
        and 0 <= size.spread <= MOST_SPREAD
    )


def planned_env(name: str) -> Mapping[str, str] | None:
    """Return the variables that make a leg of this name what it is; None when none is planned.

    Those of ``site`` are the node's own.
    """
    if name == SITE:
        return {}
    return next(
        (plan.env for plan in (*EVERY_NODE_LEGS, *SOME_NODE_LEGS) if plan.name == name), None
    )


def leg_problem(leg: Leg, planned_env: Mapping[str, str] | None) -> str:
    """Return why a leg is not the measurement that it says it is, or an empty text.

    ``planned_env`` is what ``planned_env`` gives for its name. A leg that was not done has to have
    figures that agree as far as there are any; one that was done also has to have them.
    """
    return _kind_problem(leg, planned_env) or _figures_problem(leg)


def _kind_problem(leg: Leg, planned_env: Mapping[str, str] | None) -> str:
    if planned_env is None:
        return "no leg of this name is planned"
    if leg.exercise != (leg.backend == "gloo"):
        called = "an exercise" if leg.exercise else "no exercise"
        return f"{leg.backend} is called {called}: gloo is one, NCCL is none"
    if leg.ranks < (2 if leg.exercise else 1):
        return f"{count(leg.ranks, 'rank')} of {leg.backend} make no collective"
    of_site = leg.leg == SITE and all(name.startswith("NCCL_") for name in leg.env)
    if leg.first_failure:
        planned_env = {**planned_env, **SECOND_TRY.get(leg.leg, {})}
    if dict(leg.env) != dict(planned_env) and not of_site:
        return f"it ran with {_variables(leg.env)}, and its plan is {_variables(planned_env)}"
    if leg.state == "done" and leg.backend == "nccl" and not leg.library.startswith("NCCL "):
        return f"it ran with {line(leg.library, 60) or 'a library without a name'}, not with NCCL"
    return ""


def _figures_problem(leg: Leg) -> str:
    sizes = [size.size_bytes for size in leg.sizes]
    if any(after <= before for before, after in zip([0, *sizes], sizes, strict=False)):
        return "its message sizes do not grow from one to the next"
    for size in leg.sizes:
        problem = _size_problem(leg, size) or _in_place_problem(leg, size)
        if problem:
            return f"{problem} at {binary_size(size.size_bytes)}"
    if leg.state != "done":
        return ""
    if not leg.sizes:
        return "it timed no message size"
    if leg.sizes[-1].iterations < LEAST_ITERATIONS:
        return f"its largest size was timed fewer than {LEAST_ITERATIONS} times"
    return ""


def _size_problem(leg: Leg, size: SizeTiming) -> str:
    if not size.time_us > 0:
        return f"a time of {size.time_us} us"
    if not _agree(size.algbw_gbps, size.size_bytes / size.time_us / 1e3):
        return "algbw is not size over time"
    if leg.collective not in PASSES:
        return "a collective without a known formula of busbw"
    factor = busbw_factor(leg.collective, leg.ranks)
    if not _agree(size.busbw_gbps, size.algbw_gbps * factor):
        return f"busbw is not algbw times {factor:.4g}"
    return ""


def _in_place_problem(leg: Leg, size: SizeTiming) -> str:
    if size.in_place is None:
        return ""
    if size.in_place.size_bytes != size.size_bytes:
        return f"{binary_size(size.in_place.size_bytes)} in place"
    problem = _size_problem(leg, size.in_place)
    return f"in place: {problem}" if problem else ""


def _agree(given: float, derived: float) -> bool:
    return abs(given - derived) <= TOLERANCE * min(given, derived)


def _variables(env: Mapping[str, str]) -> str:
    return line(" ".join(f"{name}={env[name]}" for name in sorted(env)), 200) or "no variable"
