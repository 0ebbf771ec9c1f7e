"""A node as its scheduler has it, how many may be drained, and what was done to one."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hwcheck.inventory.expectations import SCHEDULERS

SLURM, KUBERNETES = SCHEDULERS

IDLE, BUSY, DRAINED, DRAINED_BY_OTHER = "idle", "busy", "drained", "drained by other"
DOWN, UNKNOWN = "down", "unknown"
DRAIN, RESUME = "drain", "resume"
DONE, WOULD, REFUSED, FAILED = "done", "would", "refused", "failed"

_AMOUNT = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)(%?)")

OURS = "hwcheck"
"""What the reason of a drain begins with that hwcheck may undo."""


@dataclass(frozen=True)
class NodeState:
    """A node in its scheduler.

    ``state`` is idle, busy (its jobs want GPUs), drained (by hwcheck), drained by other, down, or
    unknown (to the scheduler; ``node`` is empty then); the first that holds of drained, down and
    busy. ``jobs`` are the ids of the jobs on it, in any state; a scheduler that hides jobs of
    others may name none of a node that is ``at_work``. ``wanted`` says what it is kept for while
    nothing runs there (``planned for a job``). ``reason``, ``who`` and ``since`` are those
    of the drain or of being down, as far as they are on record; ``partitions`` are the sets of
    nodes that jobs are sent to (in Kubernetes the resources that are asked for:
    ``nvidia.com/gpu``); ``names`` are all that it is known by, addresses too; ``raw`` is the
    state in the scheduler's words.
    """

    node: str = ""
    state: str = UNKNOWN
    at_work: bool = False
    jobs: tuple[str, ...] = ()
    who: str = ""
    reason: str = ""
    since: str = ""
    partitions: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    raw: str = ""
    wanted: str = ""

    @property
    def takes_jobs(self) -> bool:
        """Whether the scheduler may start a job there."""
        return self.state in (IDLE, BUSY)

    def line(self) -> str:
        """Return what there is to say of it: ``drained by root: disk``, ``busy: job 4711``."""
        if self.state == UNKNOWN:
            return "unknown to the scheduler"
        if self.state == BUSY:
            return "busy" + (f": {_some_jobs(self.jobs)}" if self.jobs else "")
        if self.state == IDLE and self.wanted:
            return self.wanted
        words = self.state
        if self.state in (DRAINED, DRAINED_BY_OTHER):
            words = f"drained by {self.who or 'somebody else'}"
        words += f": {self.reason}" if self.reason else ""
        return words + (f" ({_some_jobs(self.jobs)} still on it)" if self.jobs else "")


@dataclass(frozen=True)
class Amount:
    """So many nodes or hosts: a count, or a share of all (0 to 1), which is rounded down."""

    count: int = 0
    share: float = 0.0

    @classmethod
    def parse(cls, text: str) -> Amount:
        """Return that of ``3`` or ``10%``. Raises ValueError."""
        match = _AMOUNT.fullmatch(text)
        number = float(match[1]) if match else 0.0
        if match and match[2] and 0 < number <= 100:
            return cls(share=number / 100)
        if match and not match[2] and number >= 1 and number.is_integer():
            return cls(count=int(number))
        raise ValueError(f"{text[:40]!r} is neither a count (3) nor a share (10%)")

    def of(self, every: int) -> int:
        """Return how many of so many this is, at most all."""
        # 0.07 * 100 is a little more than 7, and 0.29 * 100 a little less than 29.
        return min(self.count, every) if self.count else math.floor(self.share * every + 1e-9)

    def __str__(self) -> str:
        return str(self.count) if self.count else f"{self.share * 100:g}%"


@dataclass(frozen=True)
class NodeAction:
    """What was done to a node, or was not: ``outcome`` is done, would, refused or failed.

    ``why`` is the reason that was written for a drain, or why it was refused or failed.
    """

    host: str
    node: str
    action: str
    outcome: str
    why: str = ""

    def line(self) -> str:
        """Return it for people: ``gpu1: drain: refused: busy``."""
        words = [self.host, self.action, "would be done" if self.outcome == WOULD else self.outcome]
        return ": ".join([*words, *([self.why] if self.why else [])])


def _some_jobs(jobs: Sequence[str]) -> str:
    shown = ", ".join(jobs[:5]) + (f" and {len(jobs) - 5} more" if len(jobs) > 5 else "")
    return f"job {shown}" if len(jobs) == 1 else f"jobs {shown}"
