"""What a sweep would do now, level by level, if every visit takes as long as is estimated. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hwcheck.errors import UsageError
from hwcheck.fleet.sweep.availability import States, may_be_measured
from hwcheck.fleet.sweep.batches import Places, Queue
from hwcheck.fleet.sweep.candidates import LATE_SHARE, Candidate, VisitHistory, candidates
from hwcheck.fleet.sweep.levels import DAY_S, Level
from hwcheck.fleet.sweep.links import SHARE, LinkCoverage, can_run_together
from hwcheck.fleet.sweep.night import named
from hwcheck.scheduler.records import NodeState
from hwcheck.times import length_text


@dataclass(frozen=True)
class LevelPlan:
    """A level's part of a sweep: who is due, who of them in which batch, and who is kept out.

    ``together`` are the hosts that run together before.
    """

    level: Level
    due: tuple[Candidate, ...]
    batches: tuple[tuple[Candidate, ...], ...]
    kept_out: Mapping[str, NodeState]
    together: tuple[str, ...] = ()

    def lines(self) -> list[str]:
        """Say it, a line for each host that is due."""
        name = self.level.name
        lines = []
        if self.together:
            scopes = " and ".join(self.level.scopes)
            lines.append(f"{name}: {scopes} over {named(self.together)}")
        lines += [
            f"{name}: batch {number}: {each.host}: {each.reason}"
            for number, batch in enumerate(self.batches, 1)
            for each in batch
        ]
        in_batch = {each.host for batch in self.batches for each in batch}
        for each in self.due:
            state = self.kept_out.get(each.host)
            if state is not None:
                lines.append(f"{name}: not now: {each.host}: {state.line()}")
            elif each.host not in in_batch:
                lines.append(f"{name}: no time left: {each.host}: {each.reason}")
        return lines


def level_plans(
    levels: Sequence[Level],
    pasts: Mapping[str, VisitHistory],
    hosts: Sequence[str],
    states: States,
    places: Places,
    now: datetime,
    budget_s: float,
    links: Mapping[str, LinkCoverage],
    *,
    drained: bool,
) -> list[LevelPlan]:
    """Return the plans of these levels, the heaviest first, which take ``budget_s`` together.

    A host that one of them measures is not measured by the next. ``pasts`` are by level, and so are
    ``links``, as far as hosts run together there.
    """
    made: list[LevelPlan] = []
    taken: set[str] = set()
    for level in levels:
        due = candidates([h for h in hosts if h not in taken], level, pasts[level.name], now)
        queue = Queue(due, level, len(hosts), places, drained=drained)
        batches: list[tuple[Candidate, ...]] = []
        took_s = 0.0
        together: tuple[str, ...] = ()
        if level.name in links:
            of = links[level.name]
            free = free_together(hosts, pasts[level.name], states, drained=drained)
            together = of.next_group(free, together_s(level, budget_s, due), now)
            took_s += of.takes_s(len(together)) if together else 0.0
        while batch := queue.next(states, min(budget_s, level.budget_s) - took_s):
            batches.append(batch)
            took_s += max(each.estimate_s for each in batch)
        taken |= {each.host for batch in batches for each in batch}
        budget_s -= took_s
        made.append(LevelPlan(level, due, tuple(batches), queue.kept_out, together))
    return made


def together_s(level: Level, budget_s: float, due: Sequence[Candidate]) -> float:
    """Return how long hosts of a level may run together: one visit has to fit in beside it."""
    budget_s = min(budget_s, level.budget_s)
    visit_s = max((each.estimate_s for each in due), default=0.0)
    left_s = budget_s - visit_s if visit_s <= budget_s else budget_s
    return min(SHARE * budget_s, left_s) if level.scopes else 0.0


def free_together(
    hosts: Sequence[str], past: VisitHistory, states: States, *, drained: bool
) -> tuple[str, ...]:
    """Return the hosts that may run together now."""
    return tuple(
        host
        for host in hosts
        if may_be_measured(states.get(host, NodeState()), load=True, drained=drained)
        and can_run_together(host, past.visits)
    )


def refuse_what_never_fits(plans: Sequence[LevelPlan], budget_s: float) -> None:
    """Refuse a budget in which not one of the visits that are due fits. Raises UsageError."""
    free = [
        (each.estimate_s, plan.level)
        for plan in plans
        for each in plan.due
        if each.host not in plan.kept_out
    ]
    if free and not any(plan.batches for plan in plans):
        shortest_s, level = min(free, key=lambda each: each[0])
        raise UsageError(
            f"a budget of {length_text(min(budget_s, level.budget_s))} is too short for one visit: "
            f"at {level.name} it takes {length_text(math.ceil(shortest_s))}"
        )


def shortfall(level: Level, due: Sequence[Candidate], hosts: int, budget_s: float) -> str:
    """Return why not every host can be measured in the stated time, or an empty text.

    As many sweeps as fit into half of ``at_latest`` have to do: hosts under suspicion, measured
    again and again, may take the other half.
    """
    if not due:
        return ""
    visit_s = max(each.estimate_s for each in due)
    at_once = level.at_once(hosts)
    alone_s = min(budget_s, level.budget_s) - together_s(level, budget_s, due)
    of_one = at_once * math.floor(alone_s / visit_s)
    sweeps = max(1, math.floor(LATE_SHARE * level.at_latest_s / min(level.every_s, DAY_S)))
    if of_one * sweeps >= hosts:
        return ""
    return (
        f"{level.name}: {hosts} hosts, {at_once} at once, {length_text(math.ceil(visit_s))} each, "
        f"in {length_text(min(budget_s, level.budget_s))}, take more sweeps than there are until "
        f"{length_text(level.at_latest_s)}; raise budget, max_unavailable or at_latest"
    )
