"""One collective at one message size on one rank: its buffers, their contents, its comparison."""

from __future__ import annotations

from typing import Any, Tuple

from hwcheck.node.collective import pattern
from hwcheck.node.collective.operations import BOTH, IN_PLACE, Operation
from hwcheck.node.collective.runtime import torch

ALIGNED_BYTES = 16  # NVIDIA/nccl-tests rounds the chunk of a rank down to it (src/all_gather.cu)


class Work:
    """Buffers for ``size_bytes`` in the sense of nccl-tests; ``in_place`` where there is a choice.

    ``size_bytes`` becomes what is really moved: a chunk for each rank is a multiple of 16 bytes.
    """

    def __init__(
        self,
        operation: Operation,
        size_bytes: int,
        rank: int,
        of: pattern.Pattern,
        device: str,
        in_place: bool = False,
    ) -> None:
        self._operation = operation
        self._pattern = of
        self._rank = rank
        chunks = of.ranks if operation.by_rank else 1
        self._chunk = chunk_bytes(size_bytes, chunks) // of.element_bytes
        self.size_bytes = self._chunk * of.element_bytes * chunks
        sent, held = (len(f(of, rank, 0)) for f in (operation.sends, operation.holds))
        self._target = torch.empty(self._chunk * held, dtype=of.dtype, device=device)
        if in_place or operation.placement == IN_PLACE:
            self._source, self._target = self._share(sent, held, device)
        else:
            self._source = torch.empty(self._chunk * sent, dtype=of.dtype, device=device)

    def _share(self, sent: int, held: int, device: str) -> Tuple[Any, Any]:
        """Return input and output of a run in place: one is this rank's chunk of the other."""
        if sent > held:
            whole = torch.empty(self._chunk * sent, dtype=self._pattern.dtype, device=device)
            return whole, self._chunk_of(whole)
        return (self._chunk_of(self._target) if held > sent else self._target), self._target

    def _chunk_of(self, buffer: Any) -> Any:
        return buffer[self._rank * self._chunk : (self._rank + 1) * self._chunk]

    def run(self) -> None:
        """Start the collective.

        Repeated without a fill, sums in place grow by the number of ranks each time, up to infinity
        with more than 16 ranks. They never become denormal, so the time of a run does not depend on
        them.
        """
        self._operation.run(self._source, self._target, self._rank, self._pattern.ranks)

    def verified(self, round_: int) -> int:
        """Fill, run and compare; return how many elements are wrong: exact, tolerance 0."""
        self._target.zero_()
        self._each(self._source, self._operation.sends, round_, pattern.fill)
        self.run()
        return sum(self._each(self._target, self._operation.holds, round_, pattern.count_wrong))

    def _each(self, buffer: Any, contents: Any, round_: int, do: Any) -> Any:
        periods = contents(self._pattern, self._rank, round_)
        parts = buffer.view(len(periods), -1)
        return [do(parts[place], period) for place, period in enumerate(periods)]


def chunk_bytes(size_bytes: int, chunks: int) -> int:
    """Return the bytes of one chunk of a message of ``size_bytes``."""
    return size_bytes if chunks == 1 else size_bytes // chunks // ALIGNED_BYTES * ALIGNED_BYTES


def footprint(operation: Operation, ranks: int) -> float:
    """Return the bytes of buffers for each byte of a message."""
    if operation.placement == IN_PLACE:
        return 1.0
    return 2.0 if operation.placement != BOTH else 1.0 + 1.0 / ranks
