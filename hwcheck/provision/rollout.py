"""One host first, then batches: whatever fails stops before anything else is touched."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hwcheck.errors import UsageError

CANARY = "canary"
DONE, STOPPED, UNTOUCHED = "done", "stopped", "untouched"
UNDER_WAY = "under way"


@dataclass(frozen=True)
class Batch:
    """Hosts that are changed together; ``name`` is also that of their folder."""

    name: str
    hosts: tuple[str, ...]


@dataclass(frozen=True)
class BatchOutcome:
    """What became of a batch: done, stopped (its hosts are changed and not good) or untouched.

    It is under way where the rollout was ended before it came so far. ``stages``
    has the exit code of each stage that was reached, in order.
    """

    name: str
    hosts: tuple[str, ...]
    outcome: str
    stages: Mapping[str, int]


Stage = Callable[[Batch], int]
"""Does one thing with a batch and returns its exit code; 0 lets the next follow."""


def batches(hosts: Sequence[str], size: int, canary: str | None = None) -> tuple[Batch, ...]:
    """Return the canary alone, then the others ``size`` at a time, in inventory order.

    The canary is the first host where none is named. Raises UsageError for one that is not there.
    """
    first = canary or hosts[0]
    if first not in hosts:
        raise UsageError(f"--canary {first}: no such host among those of this rollout")
    others = [host for host in hosts if host != first]
    groups = [tuple(others[start : start + size]) for start in range(0, len(others), size)]
    named = [Batch(f"batch{number}", group) for number, group in enumerate(groups, 1)]
    return (Batch(CANARY, (first,)), *named)


def roll_out(
    plan: Sequence[Batch], stages: Mapping[str, Stage]
) -> Iterator[tuple[BatchOutcome, ...]]:
    """Yield the outcomes of all batches, whenever one begins or a stage of it has ended.

    The first stage that does not end with 0 is the last one of all: what could not be measured of
    a batch is no reason to go on with the next.
    """
    outcomes = [BatchOutcome(batch.name, batch.hosts, UNTOUCHED, {}) for batch in plan]
    for number, batch in enumerate(plan):
        outcomes[number] = BatchOutcome(batch.name, batch.hosts, UNDER_WAY, {})
        yield tuple(outcomes)
        codes: dict[str, int] = {}
        for name, stage in stages.items():
            codes[name] = stage(batch)
            if codes[name] != 0:
                break
            outcomes[number] = replace(outcomes[number], stages=dict(codes))
            yield tuple(outcomes)
        stopped = any(codes.values())
        outcomes[number] = replace(
            outcomes[number], outcome=STOPPED if stopped else DONE, stages=codes
        )
        yield tuple(outcomes)
        if stopped:
            break
