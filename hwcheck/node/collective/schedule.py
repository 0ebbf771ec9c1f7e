"""The one schedule of turns, whatever engine times the collectives.

Each collective goes through the legs once, up to the sizes that time and memory allow. Then what is
compared is timed again, round by round, so that what drifts meanwhile favors no leg.
"""

from __future__ import annotations

from typing import Iterator, Protocol, Sequence, Tuple, TypeVar

from hwcheck.contract.collective_spec import NOISE, LegPlan, size_text
from hwcheck.node.collective.hangs import Hangs

FIRST_SHARE = 0.6  # of the budget is for the first turns; the rest is for the repetitions


class TimedLeg(Protocol):
    """One collective under one leg, as the schedule sees it; each engine has its own.

    ``state`` is empty until the first turn or a refusal, and then one of ``wire.LEG_STATES``.
    ``largest`` is the largest size of the first turn in bytes; ``complete``: it was not stopped
    before the size that it was to reach. ``compared``, which the schedule sets, are the sizes (in
    bytes) at which legs are compared.
    """

    compared: Tuple[int, ...]

    @property
    def plan(self) -> LegPlan:
        """The leg."""

    @property
    def state(self) -> str:
        """Empty until the first turn."""

    @property
    def largest(self) -> int:
        """Bytes."""

    @property
    def complete(self) -> bool:
        """Whether the first turn reached the size that it was to reach."""

    def refuse(self, reason: str) -> None:
        """Take note of why there is no turn: the state is ``not_run``."""

    def first(self, share_s: float, max_bytes: int, max_bytes_reason: str) -> float:
        """Take the first turn and return the seconds that it took from its first figure on.

        It begins no size that does not fit in ``share_s`` from there on, and none beyond
        ``max_bytes``, for the reason given where that is less than the node was asked for.
        """

    def repeat(self) -> None:
        """Time again what is compared."""

    def repeat_s(self) -> float:
        """Return the seconds that ``repeat`` should take, as the turn before it took."""


L = TypeVar("L", bound=TimedLeg)


def take_turns(
    collectives: Sequence[Sequence[L]], budget_s: float, rounds: int, max_bytes: int, hangs: Hangs
) -> Iterator[L]:
    """Have the legs of each collective take their turns; yield each as its last turn is over.

    A first turn gets an equal share of what is left for the first ones. What a leg took to start,
    and what a killed one took beyond its share, is not taken from the others. No leg goes beyond
    the largest size of the first that was done, so that they can be compared. The ``rounds`` count
    the first turns as one. ``hangs`` knows which leg has no further turn.
    """
    for legs in collectives:
        yield from [leg for leg in legs if leg.state]
    untried = [[leg for leg in legs if not leg.state] for legs in collectives]
    first_s = budget_s * (FIRST_SHARE if rounds > 1 else 1.0)
    left_s, waiting = budget_s, sum(map(len, untried))
    for legs in untried:
        largest, reason, bounded = max_bytes, "", False
        for leg in legs:
            share_s = first_s / waiting
            waiting -= 1
            refusal = hangs.refuses(leg.plan.name)
            if refusal:
                leg.refuse(refusal)
                continue
            spent_s = min(share_s, leg.first(share_s, largest, reason))
            first_s, left_s = first_s - spent_s, left_s - spent_s
            if leg.state == "done" and not bounded:
                largest, bounded = leg.largest, True
                if not leg.complete:
                    words = (size_text(largest), leg.plan.name)
                    reason = "stopped at %s, the largest size of leg %s" % words
        compared = {leg.largest for leg in legs if leg.state == "done"}
        for leg in legs:
            leg.compared = tuple(sorted(size for size in compared if size <= leg.largest))
            if leg.state != "done":
                yield leg
    done = [leg for legs in untried for leg in legs if leg.state == "done"]
    yield from _repeated(done, rounds - 1, left_s, hangs)


def _repeated(legs: Sequence[L], rounds: int, left_s: float, hangs: Hangs) -> Iterator[L]:
    """Repeat as often as asked and as ``left_s`` allows; a start takes nothing of it."""

    def takes_part(leg: L) -> bool:
        return leg.state == "done" and not hangs.refuses(leg.plan.name)

    for _ in range(rounds):
        going = [leg for leg in legs if takes_part(leg)]
        if sum(leg.repeat_s() for leg in going) * NOISE > left_s:
            break
        for leg in going:
            if not takes_part(leg):  # a turn of this round hung
                continue
            leg.repeat()
            left_s -= leg.repeat_s()
            if leg.state != "done":
                yield leg
    yield from [leg for leg in legs if leg.state == "done"]
