"""Which hosts run together next, so that over the nights every class of links is measured. Pure.

A link leads from a rack to a rack, or stays in one: the pairs of racks are the classes. Where the
inventory names no racks every pair of hosts is of one class.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import combinations

from hwcheck.results.multi_host import MultiHostRecord
from hwcheck.sweep.batches import Places

PAIR = "pairs"
Pair = frozenset[str]

LONG_AGO = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC, naive, as the history has it
NEVER_S = 1e9
"""What was never measured waits as if for 30 years."""


def measured_pairs(records: Iterable[tuple[datetime, MultiHostRecord]]) -> dict[Pair, datetime]:
    """Return when each two hosts last ran together, and nobody else with them."""
    last: dict[Pair, datetime] = {}
    for at, record in records:
        for run in record.runs:
            if run.why == PAIR and run.state == "done" and len(run.hosts) == 2:
                pair = frozenset(run.hosts)
                last[pair] = max(at, last.get(pair, LONG_AGO))
    return last


def link_class(pair: Pair, places: Places) -> Pair:
    """Return the racks that a pair of hosts is of: one or two."""
    return frozenset(places[host][0] for host in pair)


def class_ages(measured: Mapping[Pair, datetime], places: Places) -> dict[Pair, datetime]:
    """Return when each class of links between hosts was last measured; LONG_AGO for never.

    ``places`` has every host of the inventory; others are not in it any more.
    """
    ages = {link_class(frozenset(pair), places): LONG_AGO for pair in combinations(places, 2)}
    for pair, at in measured.items():
        if pair <= places.keys():
            of = link_class(pair, places)
            ages[of] = max(at, ages[of])
    return ages


def next_group(
    free: Sequence[str],
    most: int,
    measured: Mapping[Pair, datetime],
    places: Places,
    now: datetime,
) -> tuple[str, ...]:
    """Return up to ``most`` of the free hosts, to run together; nobody where there is no pair.

    First the two whose class, and then whose pair, was not measured for longest; then host by host
    the one that adds most: the time since each class that comes in was measured, summed up, and
    where that is alike the time since its own pairs were.
    """
    if len(free) < 2 or most < 2:
        return ()
    of_class = class_ages(measured, places)

    def waited_s(last: datetime) -> float:
        return NEVER_S if last == LONG_AGO else max(0.0, (now - last).total_seconds())

    def worth(host: str, group: Sequence[str], covered: set[Pair]) -> tuple[float, float]:
        pairs = [frozenset((host, each)) for each in group]
        classes = {link_class(pair, places) for pair in pairs} - covered
        own_s = sum(waited_s(measured.get(pair, LONG_AGO)) for pair in pairs)
        return sum(waited_s(of_class[each]) for each in classes), own_s

    pairs = [(one, other) for one, other in combinations(free, 2)]
    first = max(pairs, key=lambda pair: worth(pair[0], pair[1:], set()))
    group, covered = list(first), {link_class(frozenset(first), places)}
    rest = [host for host in free if host not in first]
    while rest and len(group) < most:
        values = [worth(host, group, covered) for host in rest]
        best = rest.pop(values.index(max(values)))
        covered |= {link_class(frozenset((best, each)), places) for each in group}
        group.append(best)
    return tuple(group)
