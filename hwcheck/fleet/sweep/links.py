"""Which hosts run together next, so that over the nights every class of links is measured. Pure.

A link leads from a rack to a rack, or stays in one: the pairs of racks are the classes. Where the
inventory names no racks every two hosts are of one class.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import combinations

from hwcheck.fleet.sweep.batches import Places, Shares
from hwcheck.fleet.sweep.candidates import LATE_SHARE
from hwcheck.fleet.sweep.levels import DAY_S, Level
from hwcheck.fleet.sweep.visits import PastVisit
from hwcheck.results.multi_host import MultiHostRecord
from hwcheck.text import line
from hwcheck.times import length_text

Pair = frozenset[str]
"""Two hosts; or the racks that they are of, one or two."""
Measured = Mapping[Pair, datetime]
"""When two hosts last ran together (UTC, naive)."""
Records = Sequence[tuple[datetime, MultiHostRecord]]
"""Runs over several hosts, and when each began."""

LONG_AGO = datetime(1970, 1, 1)  # noqa: DTZ001 - UTC, naive, as the history has it
NEVER_S = 1e9
"""What was never measured waits as if for 30 years."""

SHARE = 0.25
"""Of a level's budget, that runs over several hosts may take."""
ROUND_S = 60.0
"""What a run over several hosts takes while the history knows none."""
OVERHEAD_ROUNDS = 2
"""Importing torch on each host, and a second look where something stands out."""
ROUNDS = {"rails": 8, "all": 5}
"""Runs of a scope one after the other: a GPU index each, and two rounds of pairs to compare with.
Pairs take as many rounds as there are hosts."""
MOST_NAMED = 8


def measured_links(records: Records, scope: str) -> dict[Pair, datetime]:
    """Return when each two hosts last ran together in runs of a scope, ``pairs`` or ``all``.

    A pair that failed was measured; of more hosts that failed together nothing is known.
    """
    last: dict[Pair, datetime] = {}
    for at, record in records:
        for run in record.runs:
            if run.why == scope and (run.state == "done" or len(run.hosts) == 2):
                for pair in map(frozenset, combinations(run.hosts, 2)):
                    last[pair] = max(at, last.get(pair, LONG_AGO))
    return last


def link_class(pair: Iterable[str], places: Places) -> Pair:
    """Return the racks that two hosts are of."""
    return frozenset(places[host][0] for host in pair)


def classes(places: Places) -> list[Pair]:
    """Return the classes of links between the hosts of an inventory."""
    hosts_of = Counter(rack for rack, _ in places.values())
    racks = sorted(hosts_of)
    within = [frozenset((rack,)) for rack in racks if hosts_of[rack] > 1]
    return [*within, *map(frozenset, combinations(racks, 2))]


def class_ages(measured: Measured, places: Places) -> dict[Pair, datetime]:
    """Return when each class of links was last measured; LONG_AGO for never.

    ``places`` has every host of the inventory; others are not in it any more.
    """
    ages = dict.fromkeys(classes(places), LONG_AGO)
    for pair, at in measured.items():
        if pair <= places.keys():
            of = link_class(pair, places)
            ages[of] = max(at, ages[of])
    return ages


@dataclass(frozen=True)
class LinkCoverage:
    """What is known of the links between hosts at a level when a sweep begins.

    ``since`` is when a link of each class was first there to be measured; ``round_s`` what a run
    over several hosts takes.
    """

    level: Level
    places: Places
    measured: Measured
    since: Mapping[Pair, datetime]
    round_s: float = ROUND_S

    @property
    def ages(self) -> dict[Pair, datetime]:
        """When each class was last measured."""
        return class_ages(self.measured, self.places)

    def due(self, now: datetime) -> list[Pair]:
        """Return the classes that have their turn."""
        due_s = timedelta(seconds=self.level.due_s)
        return [of for of, last in self.ages.items() if now - last >= due_s]

    def late(self, now: datetime) -> list[Pair]:
        """Return the classes that were not measured for so long that this is a finding."""
        at_latest = timedelta(seconds=self.level.at_latest_s)
        return [
            of
            for of, last in self.ages.items()
            if now - max(last, self.since.get(of, now)) > at_latest
        ]

    def most(self, left_s: float) -> int:
        """Return how many hosts may run together in so much time; less than 2 for none."""
        rounds = math.floor(left_s / self.round_s) - OVERHEAD_ROUNDS
        rounds -= sum(ROUNDS.get(scope, 0) for scope in self.level.scopes)
        together = self.level.together(len(self.places))
        if rounds < 0:
            return 0
        return min(together, rounds) if "pairs" in self.level.scopes else together

    def takes_s(self, hosts: int) -> float:
        """Return how long so many hosts run together."""
        rounds = hosts if "pairs" in self.level.scopes else 0
        rounds += sum(ROUNDS.get(scope, 0) for scope in self.level.scopes)
        return (rounds + OVERHEAD_ROUNDS) * self.round_s

    def next_group(self, free: Sequence[str], left_s: float, now: datetime) -> tuple[str, ...]:
        """Return who of the free hosts runs together now; nobody where no class is due."""
        due = set(self.due(now))
        if not due:
            return ()
        most, due_s = self.most(left_s), self.level.due_s
        group = next_group(free, most, self.measured, self.places, now, due_s)
        of_group = {link_class(pair, self.places) for pair in combinations(group, 2)}
        return group if due & of_group else ()

    def shortfall(self) -> str:
        """Return why not every class can be measured in the stated time, or an empty text."""
        level, of = self.level, classes(self.places)
        if not of:
            return ""
        share_s = SHARE * level.budget_s
        most = self.most(share_s)
        if most < 2:
            return (
                f"{level.name}: no two hosts run together: max_unavailable {level.max_unavailable} "
                f"and a quarter of {length_text(level.budget_s)} do not allow it"
            )
        groups = max(1, math.floor(share_s / self.takes_s(most)))
        nights = math.ceil(len(of) / (groups * most * (most - 1) // 2))
        if nights * DAY_S <= LATE_SHARE * level.at_latest_s:
            return ""
        return (
            f"{level.name}: {len(of)} classes of links, {most} hosts together, "
            f"take {nights} sweeps at least; raise budget, max_unavailable or at_latest"
        )


def links_of(
    level: Level,
    places: Places,
    records: Records,
    first_seen: Mapping[str, datetime],
) -> LinkCoverage:
    """Return what is known of the links at a level; ``records`` are of all runs that matter."""
    runs = [run for _, record in records for run in record.runs if run.state == "done"]
    round_s = max((run.duration_s for run in runs[-100:]), default=0.0) or ROUND_S
    seen_in: dict[str, list[datetime]] = {}
    for host, (rack, _) in places.items():
        if host in first_seen:
            seen_in.setdefault(rack, []).append(first_seen[host])
    since = {}
    for of in classes(places):
        racks = [sorted(seen_in.get(rack, ())) for rack in of]
        if len(racks) == 1 and len(racks[0]) > 1:
            since[of] = racks[0][1]
        elif len(racks) == 2 and all(racks):
            since[of] = max(racks[0][0], racks[1][0])
    return LinkCoverage(level, places, measured_links(records, level.scopes[0]), since, round_s)


def can_run_together(host: str, visits: Mapping[str, Sequence[PastVisit]]) -> bool:
    """Whether a host was well when it was last visited: a bad one would spoil the figures of all.

    Visits that were cut off or given up say nothing.
    """
    whole = [each for each in visits.get(host, ()) if not (each.cut_off or each.given_up)]
    return bool(whole) and whole[-1].state == "reported" and whole[-1].outcome != "fail"


def next_group(
    free: Sequence[str],
    most: int,
    measured: Measured,
    places: Places,
    now: datetime,
    due_s: float = 0.0,
) -> tuple[str, ...]:
    """Return up to ``most`` of the free hosts, to run together; nobody where there is no pair.

    First the two whose class, and then whose pair, was not measured for longest; then host by host
    the one that adds most: the time since each class that comes in was measured, squared (what has
    waited for longest is not outvoted) and summed up over those that wait for ``due_s``, and where
    that is alike the time since its own pairs were. All begin their load at once: each rack and
    each power feed has its share of them, as in a batch, or two, without which a link within it
    would never be measured.
    """
    if len(free) < 2 or most < 2:
        return ()

    def waited_s(last: datetime) -> float:
        return NEVER_S if last == LONG_AGO else max(0.0, (now - last).total_seconds())

    def waited_pair_s(one: str, other: str) -> float:
        return waited_s(measured.get(frozenset((one, other)), LONG_AGO))

    waits_s = {of: waited_s(last) for of, last in class_ages(measured, places).items()}
    rack_of = {host: places[host][0] for host in free}
    there = classes({host: places[host] for host in free})
    oldest = max(there, key=lambda of: waits_s[of])
    racks = sorted(oldest) * (3 - len(oldest))
    pairs = [
        (one, other)
        for one in free
        if rack_of[one] == racks[0]
        for other in free
        if rack_of[other] == racks[1] and one != other
    ]
    group = list(max(pairs, key=lambda pair: waited_pair_s(*pair)))
    shares = Shares(places, most, least=2)
    for host in group:
        shares.add(host)
    covered = {link_class(group, places)}
    rest = {
        host: sum(waited_pair_s(host, each) for each in group) for host in free if host not in group
    }
    while len(group) < most:
        rest = {host: sum_s for host, sum_s in rest.items() if shares.bear(host)}
        if not rest:
            break
        inside = {rack_of[each] for each in group}
        added = {
            rack: sum(
                waits_s[of] ** 2
                for of in {frozenset((rack, each)) for each in inside} - covered
                if waits_s.get(of, -1.0) >= due_s
            )
            for rack in set(rack_of.values())
        }
        best = max(rest, key=lambda host: (added[rack_of[host]], rest[host]))
        del rest[best]
        shares.add(best)
        covered |= {link_class((best, each), places) for each in group}
        group.append(best)
        for host in rest:
            rest[host] += waited_pair_s(host, best)
    return tuple(group)


def coverage_text(links: LinkCoverage, now: datetime) -> str:
    """Say how many classes of links were measured in time, and which were not for too long."""
    level, ages = links.level, links.ages
    if not ages:
        return ""
    at_latest = timedelta(seconds=level.at_latest_s)
    within = sum(now - last <= at_latest for last in ages.values())
    limit = length_text(level.at_latest_s)
    text = f"{level.name}: links: {within} of {len(ages)} classes measured within {limit}"
    late = links.late(now)
    if late:
        words = ", ".join(map(class_text, late[:MOST_NAMED]))
        more = f" and {len(late) - MOST_NAMED} more" if len(late) > MOST_NAMED else ""
        text += f"; not measured for too long: {words}{more}"
    return text


def class_text(of: Pair) -> str:
    """Say which links a class has: ``within r1``, ``r1 to r2``, ``between hosts``."""
    racks = [line(rack, 40) for rack in sorted(of)]
    if len(racks) == 1:
        return f"within {racks[0]}" if racks[0] else "between hosts"
    return f"{racks[0] or 'hosts without a rack'} to {racks[1]}"


def late_hosts(late: Iterable[Pair], level: Level, places: Places) -> dict[str, str]:
    """Return the hosts whose links were not measured for too long, each with which these are."""
    of_rack: dict[str, list[str]] = {}
    for of in late:
        for rack in of:
            others = sorted(of - {rack})
            if others:
                words = f"to {line(others[0], 40) or 'hosts without a rack'}"
            else:
                words = "within its rack" if rack else "to other hosts"
            of_rack.setdefault(rack, []).append(words)
    limit = length_text(level.at_latest_s)
    return {
        host: line(f"{level.name}: not measured for more than {limit}: {', '.join(of_rack[rack])}")
        for host, (rack, _) in places.items()
        if rack in of_rack
    }
