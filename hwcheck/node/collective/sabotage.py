"""A collective that is broken on purpose, so that what has to notice it can be seen to."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from typing import Any, Callable

from hwcheck.node.collective.operation import Operation

Harm = Callable[[Any], None]
"""Does it: is given the buffer that holds the result, on one rank."""


def sabotaged(operation: Operation, name: str, harm: Harm) -> Operation:
    """Return the collective under another name; its last rank does ``harm`` after each run."""

    def run(source: Any, target: Any, rank: int, ranks: int) -> None:
        operation.run(source, target, rank, ranks)
        if rank == ranks - 1:
            harm(target)

    return replace(operation, name=name, run=run)


def damage_one_element(target: Any) -> None:
    """Change one element by one: the least that a comparison has to see."""
    target[:1] += 1


def stop_this_process(_target: Any) -> None:
    """Stand still as a process does that is stuck: it neither ends nor reports anything."""
    os.kill(os.getpid(), signal.SIGSTOP)
