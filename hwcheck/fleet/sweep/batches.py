"""Which of the hosts in line are measured next, at once. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from hwcheck.fleet.sweep.availability import States, may_be_measured
from hwcheck.fleet.sweep.candidates import Candidate
from hwcheck.fleet.sweep.levels import Level
from hwcheck.scheduler.records import NodeState

Places = Mapping[str, tuple[str, str]]
"""Rack and power feed of each host; an empty text where the inventory names none."""


def bounds(places: Places, at_once: int) -> tuple[int, int]:
    """Return how many of ``at_once`` hosts may be of one rack, and on one power feed.

    As many as there are if each rack, and each feed, bears its share.
    """
    racks, feeds = (len({place[n] for place in places.values()} - {""}) for n in (0, 1))
    return math.ceil(at_once / max(1, racks)), math.ceil(at_once / max(1, feeds))


def anywhere(places: Places, at_once: int) -> int:
    """Return how many of ``at_once`` hosts may begin wherever they are: one share, at least 1."""
    return min(bounds(places, at_once))


class Shares:
    """How many of the hosts that begin at once each rack and each power feed bears.

    ``least`` is what each of them bears however small its share is.
    """

    def __init__(self, places: Places, at_once: int, least: int = 1) -> None:
        self._places = places
        self._most = tuple(max(least, most) for most in bounds(places, at_once))
        self._taken: tuple[Counter[str], ...] = (Counter(), Counter())

    def bear(self, host: str) -> bool:
        """Whether one more host may begin."""
        return all(
            not name or taken[name] < most
            for name, taken, most in zip(
                self._places.get(host, ("", "")), self._taken, self._most, strict=True
            )
        )

    def add(self, host: str) -> None:
        """Count a host that begins."""
        for name, taken in zip(self._places.get(host, ("", "")), self._taken, strict=True):
            taken[name] += 1


def next_batch(
    in_line: Sequence[Candidate], at_once: int, left_s: float, places: Places
) -> tuple[Candidate, ...]:
    """Return who is next: the first in line, as far as time, racks and feeds bear it.

    A host whose visit takes longer than what is left, or whose rack or feed bears its share
    already, lets the next one go first.
    """
    shares = Shares(places, at_once)
    batch: list[Candidate] = []
    for candidate in in_line:
        if len(batch) == at_once:
            break
        if candidate.estimate_s <= left_s and shares.bear(candidate.host):
            shares.add(candidate.host)
            batch.append(candidate)
    return tuple(batch)


class Queue:
    """The hosts that are due at a level, of whom as many as may be measured at once go next.

    ``waiting`` are those that had no turn yet; ``kept_out`` are those that could not be measured
    when it was theirs, each with what the scheduler said.
    """

    def __init__(
        self, due: Sequence[Candidate], level: Level, hosts: int, places: Places, *, drained: bool
    ) -> None:
        self.waiting = tuple(due)
        self.kept_out: dict[str, NodeState] = {}
        self._load, self._at_once = level.load, level.at_once(hosts)
        self._places, self._drained = places, drained

    def next(self, states: States, left_s: float) -> tuple[Candidate, ...]:
        """Return who is measured now, with so much time left; nobody when there is nobody more."""
        for each in self.waiting:
            state = states.get(each.host, NodeState())
            if not may_be_measured(state, load=self._load, drained=self._drained):
                self.kept_out[each.host] = state
        free = [each for each in self.waiting if each.host not in self.kept_out]
        batch = next_batch(free, self._at_once, left_s, self._places)
        self.waiting = tuple(each for each in free if each not in batch)
        return batch
