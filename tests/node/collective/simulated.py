"""What ranks send and must hold, without any: for tests of one collective's data."""

from __future__ import annotations

from typing import Any

from hwcheck.node.collective import pattern
from hwcheck.node.collective.operations import Operation
from hwcheck.node.collective.runtime import torch

# Threads that wait for each other take ten times as long where others use the processors.
torch.set_num_threads(1)

COUNT = 70_000
"""Elements of a chunk: more than one period of copies in fp32."""


class Ranks:
    """So many ranks of one collective, and what stands in their buffers."""

    def __init__(
        self, operation: Operation, ranks: int, dtype: str = "float", count: int = COUNT
    ) -> None:
        self.operation = operation
        self.count = count
        self.of = pattern.Pattern(dtype, ranks, "cpu")

    def sent(self, rank: int, round_: int = 0) -> list[torch.Tensor]:
        """Return the chunks that a rank puts in."""
        return self._filled(self.operation.sends(self.of, rank, round_))

    def wrong(self, rank: int, chunks: Any, round_: int = 0) -> int:
        """Count the wrong elements of what a rank got, chunk by chunk."""
        wanted = self.operation.holds(self.of, rank, round_)
        assert len(wanted) == len(chunks)
        return sum(map(pattern.count_wrong, chunks, wanted))

    def _filled(self, periods: list[torch.Tensor]) -> list[torch.Tensor]:
        found = []
        for period in periods:
            buffer = torch.empty(self.count, dtype=self.of.dtype)
            pattern.fill(buffer, period)
            found.append(buffer)
        return found


def summed(parts: list[torch.Tensor]) -> torch.Tensor:
    """Sum in the parts' own type, one after another, as a ring does."""
    total = parts[0].clone()
    for part in parts[1:]:
        total += part
    return total
