"""From the ranks' times to one figure for a message size."""

from __future__ import annotations

from typing import List, Sequence

from hwcheck.contract.wire import SizeTiming


def slowest(times_by_rank: Sequence[Sequence[float]]) -> List[float]:
    """Return for each iteration the slowest rank's time: the collective has ended only then.

    Raises ValueError when the ranks timed different numbers of iterations.
    """
    counts = {len(times) for times in times_by_rank}
    if len(counts) != 1:
        raise ValueError("the ranks timed different numbers of iterations")
    return [max(times[i] for times in times_by_rank) for i in range(counts.pop())]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the quantile, linear between neighbors: ``quantile([1, 3], 0.5)`` is 2."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def summarize(
    size_bytes: int, times_by_rank: Sequence[Sequence[float]], busbw_factor: float, wrong: int
) -> SizeTiming:
    """Return the figures of one size from every rank's times in microseconds.

    algbw = size / median time, busbw = algbw x factor, both in 1e9 bytes/s (NVIDIA/nccl-tests,
    doc/PERFORMANCE.md).
    """
    return merge(size_bytes, [slowest(times_by_rank)], busbw_factor, wrong)


def merge(
    size_bytes: int, passes: Sequence[Sequence[float]], busbw_factor: float, wrong: int
) -> SizeTiming:
    """Return the figures of one size from the slowest ranks' times of each pass."""
    times = [time_us for each in passes for time_us in each]
    medians = [quantile(each, 0.5) for each in passes]
    median = quantile(medians, 0.5)
    algbw = size_bytes / median / 1e3
    return SizeTiming(
        size_bytes=size_bytes,
        iterations=len(times),
        time_us=median,
        time_p95_us=quantile(times, 0.95),
        spread=(quantile(times, 0.75) - quantile(times, 0.25)) / median,
        algbw_gbps=algbw,
        busbw_gbps=algbw * busbw_factor,
        wrong=wrong,
        passes=len(passes),
        pass_spread=(max(medians) - min(medians)) / median,
    )
