"""Data that shows corruption: every element depends on its index, its rank and the round.

An element of rank r is ``((index + 977 round) mod 8191 + 1) (r + 1)``, an integer in fp32. The
period is prime, so data moved by any power of two differs; the weights differ, so one rank's data
in place of another's differs; the rounds differ, so what an earlier run left behind differs.
"""

from __future__ import annotations

from typing import Any

from hwcheck.node.collective.runtime import torch

PERIOD = 8191
ROUND_SHIFT = 977
# 8191 n(n+1)/2 must stay below 2^24, where fp32 holds every integer and any order of summing is
# exact.
MAX_RANKS = 63
ROWS_AT_ONCE = 1024  # 8 MiB of comparison results, however large the buffer


def weight(rank: int) -> int:
    """Return the factor of one rank's data."""
    return rank + 1


def row(scale: int, round_: int, device: str) -> Any:
    """Return one period, fp32[8191], times ``scale``."""
    index = torch.arange(PERIOD, device=device)
    return (((index + ROUND_SHIFT * round_) % PERIOD + 1) * scale).to(torch.float32)


def fill(buffer: Any, period: Any) -> None:
    """Fill ``buffer`` (fp32, flat) with repetitions of ``period``."""
    whole = buffer.numel() // PERIOD * PERIOD
    buffer[:whole].view(-1, PERIOD).copy_(period)
    buffer[whole:].copy_(period[: buffer.numel() - whole])


def count_wrong(buffer: Any, period: Any) -> int:
    """Return how many elements of ``buffer`` differ from repetitions of ``period``; NaN differs."""
    whole = buffer.numel() // PERIOD * PERIOD
    wrong = torch.count_nonzero(buffer[whole:] != period[: buffer.numel() - whole])
    for rows in buffer[:whole].view(-1, PERIOD).split(ROWS_AT_ONCE):
        wrong += torch.count_nonzero(rows != period)
    return int(wrong.item())
