"""What a collective is here: one small file with one ``Operation`` of the file's name."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, Callable


@dataclass(frozen=True)
class Operation:
    """A collective as functions, in the manner of nccl-tests.

    ``busbw_factor(ranks)`` turns algbw into busbw. ``fill(buffer, rank, ranks, round)`` writes a
    rank's input, ``run(buffer)`` starts the collective in place, ``count_wrong(buffer, rank,
    ranks, round)`` compares the outcome with what this rank must hold. ``buffer`` is fp32, flat,
    and its bytes are what nccl-tests prints as *size*.
    """

    name: str
    max_ranks: int
    busbw_factor: Callable[[int], float]
    fill: Callable[[Any, int, int, int], None]
    run: Callable[[Any], None]
    count_wrong: Callable[[Any, int, int, int], int]


def load(name: str) -> Operation:
    """Return the collective of that name. Raises ValueError when there is none."""
    module = importlib.import_module(__package__ + "." + name) if name.isidentifier() else None
    operation = getattr(module, name, None)
    if not isinstance(operation, Operation):
        raise ValueError("no collective is named %r" % name)
    return operation
