"""Which of the hosts in line are measured next, at once. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from hwcheck.sweep.candidates import Candidate

Places = Mapping[str, tuple[str, str]]
"""Rack and power feed of each host; an empty text where the inventory names none."""


def bounds(places: Places, at_once: int) -> tuple[int, int]:
    """Return how many of ``at_once`` hosts may be of one rack, and on one power feed.

    As many as there are if each rack, and each feed, bears its share.
    """
    racks, feeds = (len({place[n] for place in places.values()} - {""}) for n in (0, 1))
    return math.ceil(at_once / max(1, racks)), math.ceil(at_once / max(1, feeds))


def next_batch(
    in_line: Sequence[Candidate], at_once: int, left_s: float, places: Places
) -> tuple[Candidate, ...]:
    """Return who is next: the first in line, as far as time, racks and feeds bear it.

    A host whose visit takes longer than what is left, or whose rack or feed bears its share
    already, lets the next one go first.
    """
    of_rack, of_feed = bounds(places, at_once)
    racks: Counter[str] = Counter()
    feeds: Counter[str] = Counter()
    batch: list[Candidate] = []
    for candidate in in_line:
        if len(batch) == at_once:
            break
        rack, feed = places.get(candidate.host, ("", ""))
        full = (rack and racks[rack] == of_rack) or (feed and feeds[feed] == of_feed)
        if full or candidate.estimate_s > left_s:
            continue
        racks[rack] += 1
        feeds[feed] += 1
        batch.append(candidate)
    return tuple(batch)


def planned(
    in_line: Sequence[Candidate], at_once: int, budget_s: float, places: Places
) -> tuple[tuple[Candidate, ...], ...]:
    """Return the batches of a sweep in which every visit takes as long as is estimated."""
    batches: list[tuple[Candidate, ...]] = []
    left, left_s = list(in_line), budget_s
    while batch := next_batch(left, at_once, left_s, places):
        batches.append(batch)
        left = [candidate for candidate in left if candidate not in batch]
        left_s -= max(candidate.estimate_s for candidate in batch)
    return tuple(batches)
