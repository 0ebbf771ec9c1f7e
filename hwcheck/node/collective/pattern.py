"""Data that shows corruption: every element depends on its index, its rank and the round.

All are integers that their type holds exactly, and the periods are prime, so data moved by any
power of two differs; so does one rank's data in place of another's, and what an earlier round left.

What is only copied is ``(index + shift) mod period + 1`` with a shift for each sender (and
receiver) and round. A summand in fp32 is ``((index + 977 round) mod 8191 + 1) (rank + 1)``. In
bf16, which holds the integers up to 256, it is 1 of every rank and ``(index + 977 round) mod 191``
more of one of them, in turn, so every element depends on all ranks and any order of summing is
exact.
"""

from __future__ import annotations

from typing import Any

from hwcheck.node.collective.runtime import torch

DTYPES = {"float": torch.float32, "bfloat16": torch.bfloat16}
# Of copies: prime, and held exactly. So many codes have data that differs everywhere.
PERIODS = {"float": 65521, "bfloat16": 251}
PERIOD = 8191  # of summands in fp32
BF16_PERIOD = 191  # of summands in bf16: 63 + 190 is below 256
CODE_SHIFT = 61
ROUND_SHIFT = 977
# Of sums: 8191 n(n+1)/2 must stay below 2^24, where fp32 holds every integer and any order of
# summing is exact.
MAX_RANKS = 63
COMPARED_AT_ONCE = 1 << 23  # elements: 8 MiB of results, however large the buffer


class Pattern:
    """The periods of one type, for so many ranks, on one device."""

    def __init__(self, dtype: str, ranks: int, device: str) -> None:
        self.dtype = DTYPES[dtype]
        self.element_bytes = int(torch.empty(0, dtype=self.dtype).element_size())
        self.ranks = ranks
        self._copied = PERIODS[dtype]
        self._device = device

    def copied(self, code: int, round_: int) -> Any:
        """Return the data of one sender; codes below 251 (fp32: 65521) differ everywhere."""
        return self._row(self._copied, CODE_SHIFT * code + ROUND_SHIFT * round_) + 1

    def summand(self, rank: int, chunk: int, round_: int) -> Any:
        """Return what one rank adds to a sum; ``chunk`` tells apart the sums of one round."""
        shift = CODE_SHIFT * chunk + ROUND_SHIFT * round_
        if self.dtype is torch.float32:
            return (self._row(PERIOD, shift) + 1) * (rank + 1)
        index = torch.arange(BF16_PERIOD * self.ranks, device=self._device)
        mine = index % self.ranks == rank
        return (1 + mine * ((index + shift) % BF16_PERIOD)).to(self.dtype)

    def total(self, chunk: int, round_: int) -> Any:
        """Return the sum of every rank's summand."""
        shift = CODE_SHIFT * chunk + ROUND_SHIFT * round_
        if self.dtype is torch.float32:
            return (self._row(PERIOD, shift) + 1) * (self.ranks * (self.ranks + 1) // 2)
        return self._row(BF16_PERIOD, shift) + self.ranks

    def _row(self, period: int, shift: int) -> Any:
        index = torch.arange(period, device=self._device)
        return ((index + shift) % period).to(self.dtype)


def fill(buffer: Any, period: Any) -> None:
    """Fill ``buffer`` (flat) with repetitions of ``period``."""
    length = period.numel()
    whole = buffer.numel() // length * length
    buffer[:whole].view(-1, length).copy_(period)
    buffer[whole:].copy_(period[: buffer.numel() - whole])


def count_wrong(buffer: Any, period: Any) -> int:
    """Return how many elements of ``buffer`` differ from repetitions of ``period``; NaN differs."""
    length = period.numel()
    whole = buffer.numel() // length * length
    wrong = torch.count_nonzero(buffer[whole:] != period[: buffer.numel() - whole])
    for rows in buffer[:whole].view(-1, length).split(COMPARED_AT_ONCE // length):
        wrong += torch.count_nonzero(rows != period)
    return int(wrong.item())
