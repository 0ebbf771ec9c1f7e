"""What a collective is here: one small file with one ``Operation`` of the file's name."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Callable, List

from hwcheck.node.collective.pattern import MAX_RANKS, Pattern

IN_PLACE, OUT_OF_PLACE, BOTH = "in place", "out of place", "both"

Contents = Callable[[Pattern, int, int], List[Any]]
"""What stands in a buffer of (pattern, rank, round): one period for each of its equal chunks."""


@dataclass(frozen=True)
class Operation:
    """A collective as functions, in the manner of nccl-tests.

    ``busbw_factor(ranks)`` turns algbw into busbw. ``sends`` is what a rank puts in, ``holds``
    what it must have afterwards. ``run(source, target, rank, ranks)`` starts the collective; in
    place one of the two is a part of the other, or the same. Where ``by_rank``, the bytes that
    nccl-tests prints as *size* are those of one chunk for each rank, otherwise those of one chunk.
    ``placement`` is IN_PLACE, OUT_OF_PLACE or BOTH: what the library offers.
    """

    name: str
    busbw_factor: Callable[[int], float]
    sends: Contents
    holds: Contents
    run: Callable[[Any, Any, int, int], None]
    by_rank: bool
    placement: str
    least_ranks: int = 1
    max_ranks: int = MAX_RANKS
    max_ranks_bfloat16: int = MAX_RANKS

    def refuses(self, ranks: int, dtype: str) -> str:
        """Return why so many ranks cannot be measured, or an empty text."""
        most = self.max_ranks_bfloat16 if dtype == "bfloat16" else self.max_ranks
        if ranks > most:
            return "%s verifies up to %d ranks, not %d" % (self.name, most, ranks)
        if ranks < self.least_ranks:
            return "%s needs another rank to send to" % self.name
        return ""


def load(name: str) -> Operation:
    """Return the collective of that name. Raises ValueError when there is none."""
    module = importlib.import_module(__package__ + "." + name) if name.isidentifier() else None
    operation = getattr(module, name, None)
    if not isinstance(operation, Operation):
        raise ValueError("no collective is named %r" % name)
    return operation
