"""How many rings of NVLinks lead through all GPUs of a node without switches. Pure.

An all_reduce over direct links runs as rings, each link in one of them: what the links carry
together counts only as far as rings can be laid (NVIDIA/nccl, src/graph/search.cc).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, permutations

MOST_GPUS = 8
"""No node without switches joins more by NVLink."""

MOST_STEPS = 20_000
"""Of the search. When it ends early the rings found so far count: an expectation too low, never
one too high."""

Links = Mapping[tuple[int, int], int]
Ring = Sequence[tuple[int, int]]


def rings(gpus: int, links: Links) -> int:
    """Return how many directed rings pass every GPU; ``links`` maps a pair (i < j) to its links.

    Each undirected ring is one in either direction. Between two GPUs each link is a ring.
    """
    if gpus == 2:
        return links.get((0, 1), 0)
    if not 2 < gpus <= MOST_GPUS:
        return 0
    return 2 * _packed(gpus, tuple(sorted((pair, n) for pair, n in links.items() if n > 0)))


@lru_cache(maxsize=256)
def _packed(gpus: int, links: tuple[tuple[tuple[int, int], int], ...]) -> int:
    """Return the most undirected rings that share no link."""
    free = dict(links)
    degrees = [sum(n for pair, n in links if gpu in pair) for gpu in range(gpus)]
    search = _Search(list(_cycles(gpus, free)), min(degrees) // 2)
    search.lay(free, 0, 0)
    return search.best


class _Search:
    """Lays rings one by one and goes back, until no more can fit or the steps are used up."""

    def __init__(self, cycles: list[Ring], bound: int) -> None:
        self.cycles = cycles
        self.bound = bound
        self.best = 0
        self.steps = 0

    def lay(self, free: dict[tuple[int, int], int], first: int, laid: int) -> None:
        """Lay the rings from ``first`` on into what is ``free``."""
        self.best = max(self.best, laid)
        for number in range(first, len(self.cycles)):
            self.steps += 1
            if self.best >= self.bound or self.steps > MOST_STEPS:
                return
            ring = self.cycles[number]
            if all(free[pair] > 0 for pair in ring):
                self.lay({p: n - (p in ring) for p, n in free.items()}, number, laid + 1)


def _cycles(gpus: int, free: Links) -> Iterator[Ring]:
    for order in permutations(range(1, gpus)):
        if order[0] > order[-1]:
            continue  # the same ring the other way round
        stops = (0, *order, 0)
        ring = [(min(a, b), max(a, b)) for a, b in pairwise(stops)]
        if all(pair in free for pair in ring):
            yield ring
