"""A node as its scheduler has it, how many may be drained, and what was done to one."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hwcheck.errors import UsageError
from hwcheck.inventory.expectations import SCHEDULERS

SLURM, KUBERNETES = SCHEDULERS

IDLE, BUSY, DRAINED, DRAINED_BY_OTHER = "idle", "busy", "drained", "drained by other"
DOWN, UNKNOWN = "down", "unknown"
DRAIN, RESUME = "drain", "resume"
DONE, WOULD, REFUSED, FAILED = "done", "would", "refused", "failed"

OURS = "hwcheck"
"""What the reason of a drain begins with that hwcheck may undo."""


@dataclass(frozen=True)
class NodeState:
    """A node in its scheduler.

    ``state`` is idle, busy (its jobs want GPUs), drained (by hwcheck), drained by other, down, or
    unknown (to the scheduler; ``node`` is empty then); the first that holds of drained, down and
    busy. ``jobs`` are the ids of the jobs on it, in any state; a scheduler that hides jobs of
    others may name none of a node that is ``at_work``. ``reason``, ``who`` and ``since`` are those
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
        words = self.state
        if self.state in (DRAINED, DRAINED_BY_OTHER):
            words = f"drained by {self.who or 'somebody else'}"
        words += f": {self.reason}" if self.reason else ""
        return words + (f" ({_some_jobs(self.jobs)} still on it)" if self.jobs else "")


@dataclass(frozen=True)
class MaxDrained:
    """How many nodes may be out of service, of all and of each partition: a count or a share.

    A share is rounded down.
    """

    count: int | None = None
    share: float = 0.0

    @classmethod
    def parse(cls, text: str, flag: str = "--max-drained") -> MaxDrained:
        """Return that of ``8`` or ``10%``. Raises UsageError."""
        if re.fullmatch(r"[0-9]{1,6}", text) and int(text) > 0:
            return cls(count=int(text))
        percent = re.fullmatch(r"([0-9]{1,3}(?:\.[0-9]{1,3})?)%", text)
        if percent and 0 < float(percent[1]) <= 100:
            return cls(share=float(percent[1]) / 100)
        raise UsageError(f"{flag} {text[:40]}: it takes a number of nodes from 1, or a share (10%)")

    def of(self, nodes: int) -> int:
        """Return how many of so many nodes may be out of service."""
        # 0.07 * 100 is a little more than 7, and 0.29 * 100 a little less than 29.
        return self.count if self.count is not None else math.floor(self.share * nodes + 1e-9)

    def __str__(self) -> str:
        return str(self.count) if self.count is not None else f"{self.share * 100:g}%"


@dataclass(frozen=True)
class Action:
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
