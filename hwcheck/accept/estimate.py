"""How long the stages of an acceptance take, by what they took here or by their plans. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from statistics import median

from hwcheck.accept.criteria import Criteria
from hwcheck.accept.evidence import StageResult
from hwcheck.accept.stages import STAGES

VISIT_S = 12.0
"""Connecting, the payload and every idle check: 3 to 12 s on nodes with 8 GPUs in the lab."""
START_S = 45.0
"""Two imports of torch and the start of the legs (``CollectiveSpec.start_s``)."""
PROVE_S = 60.0
COOL_DOWN_S = 120.0
COPIES_S = 180.0
"""What the stage load does beside the burn-in: copies, every pair of GPUs."""
COLLECTIVES_S = 240.0
"""The budget of the profile standard."""
GROUP_S = 20.0
"""One collective over several hosts."""


@dataclass(frozen=True)
class StageEstimate:
    """``seconds`` that a stage takes, once for all ``hosts``; ``by`` says what that is known by."""

    stage: str
    hosts: int
    seconds: float
    by: str


def estimates(
    criteria: Criteria,
    left: Mapping[str, int],
    forks: int,
    results: Sequence[StageResult] = (),
) -> list[StageEstimate]:
    """Return how long each stage takes that ``left`` has hosts for.

    What a stage took in this acceptance comes before what is planned.
    """
    made = []
    for name in criteria.stages:
        hosts = left.get(name, 0)
        if not hosts:
            continue
        measured = [_per_batch(result, forks) for result in results if result.stage == name]
        batches = 1 if STAGES[name].over_hosts else -(-hosts // forks)
        repeats = criteria.repeats if name == "collectives" else 1
        if measured:
            made.append(
                StageEstimate(name, hosts, median(measured) * batches * repeats, "measured here")
            )
        else:
            seconds = _planned(criteria, name, hosts) * batches * repeats
            made.append(StageEstimate(name, hosts, seconds, "as planned"))
    return made


def _planned(criteria: Criteria, stage: str, hosts: int) -> float:
    """Return the seconds of one batch of a stage, by what its visits are given."""
    rounds = hosts - 1 + hosts % 2
    return {
        "idle": VISIT_S,
        "prove": VISIT_S + START_S + PROVE_S,
        "load": VISIT_S + START_S + criteria.burn_in_s + COOL_DOWN_S + COPIES_S,
        "collectives": VISIT_S + START_S + COLLECTIVES_S,
        "pairs": VISIT_S + START_S + GROUP_S * rounds,
        "rails": VISIT_S + START_S + GROUP_S,
        "all": VISIT_S + START_S + GROUP_S,
    }[stage]


def _per_batch(result: StageResult, forks: int) -> float:
    took_s = _seconds(result.finished) - _seconds(result.started)
    batches = 1 if STAGES[result.stage].over_hosts else -(-len(result.hosts) // forks)
    return took_s / max(1, batches)


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time.replace("Z", "+00:00")).timestamp() if time else 0.0
