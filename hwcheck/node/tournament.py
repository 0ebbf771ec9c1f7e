"""Everybody with everybody, in rounds in which nobody waits and nobody meets two others at once."""

from __future__ import annotations

from typing import List, Optional, Sequence, Tuple, TypeVar

T = TypeVar("T")


def rounds(members: Sequence[T]) -> List[List[Tuple[T, T]]]:
    """Return the rounds of a round-robin tournament, by the circle method.

    Every pair meets once. With an even number of members there are n-1 rounds, each of all; with an
    odd number n rounds, each of all but one. The pairs of a round share no member, so they can go
    at the same time.
    """
    places: List[Optional[int]] = list(range(len(members)))
    if len(places) % 2:
        places.append(None)
    made = []
    for _ in range(len(places) - 1):
        half = len(places) // 2
        met = zip(places[:half], reversed(places[half:]))  # noqa: B905 (halves; Python 3.8)
        pairs = [(one, other) for one, other in met if one is not None and other is not None]
        made.append([(members[one], members[other]) for one, other in pairs])
        places.insert(1, places.pop())  # the first stays, the others move on by one place
    return made
