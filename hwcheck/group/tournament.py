"""Every pair of hosts, in rounds in which nobody waits and nobody meets two others at once."""

from __future__ import annotations

from collections.abc import Sequence

Pair = tuple[str, str]


def rounds(hosts: Sequence[str]) -> list[list[Pair]]:
    """Return the rounds of a round-robin tournament, by the circle method.

    Every pair meets once. With an even number of hosts there are n-1 rounds, each of all hosts;
    with an odd number n rounds, each of all but one. The pairs of a round share no host, so they
    run at the same time.
    """
    names: list[str | None] = list(hosts)
    if len(names) % 2:
        names.append(None)
    made = []
    for _ in range(len(names) - 1):
        half = len(names) // 2
        met = zip(names[:half], reversed(names[half:]), strict=True)
        made.append([(one, other) for one, other in met if one is not None and other is not None])
        names.insert(1, names.pop())  # the first stays, the others move on by one place
    return made
