"""How soon every host is measured, and whether budget and bounds hold, night by night.

    python benchmarks/sweeps.py [--hosts 200] [--nights 30] [--seed 1]

Simulates the sweeps of a fleet with the product's own planner (``hwcheck.fleet.sweep``): jobs that
keep hosts at work for hours to days and begin amid a sweep, visits of uneven length of which some
hang, hosts that fail from a night on, that flap, that are down for a week, one that is always at
work and one that never answers; before the visits of a week and of a month hosts run together, and
a job that begins on one of them ends that. What people are told of each night is counted.

The exit code is 1 where a host that was free when it was its turn had to wait longer than stated, a
class of links was not measured in the stated time, one that was not measured for so long is not
named, or a bound was passed.
"""

from __future__ import annotations

import argparse
import itertools
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import combinations
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from hwcheck.fleet.notify.changes import State, Sweep, changes
from hwcheck.fleet.notify.problems import WHOLE_HOST, Problem, RunProblems
from hwcheck.fleet.sweep.availability import States
from hwcheck.fleet.sweep.batches import Queue, bounds
from hwcheck.fleet.sweep.candidates import Candidate, VisitHistory, candidates
from hwcheck.fleet.sweep.levels import DAY_S, LEVELS, MINUTE_S, Level
from hwcheck.fleet.sweep.links import (
    ROUND_S,
    class_text,
    classes,
    link_class,
    links_of,
    measured_links,
)
from hwcheck.fleet.sweep.night import (
    LevelResult,
    after,
    ended,
    under_way,
    visit_history,
    with_hosts,
)
from hwcheck.fleet.sweep.plans import free_together, together_s
from hwcheck.fleet.sweep.state import SweepState, as_text
from hwcheck.fleet.sweep.visits import PastVisit
from hwcheck.results.multi_host import MultiHostRecord, MultiHostRun
from hwcheck.scheduler.records import BUSY, DOWN, IDLE, Amount, NodeState

START = datetime(2026, 1, 1, 2, 30, tzinfo=timezone.utc).replace(tzinfo=None)
RACKS, FEEDS = 20, 4
LEVELS_OF_A_NIGHT = (
    replace(LEVELS["monthly"], budget_s=100 * MINUTE_S),
    replace(LEVELS["weekly"], budget_s=90 * MINUTE_S),
    replace(LEVELS["nightly"], budget_s=40 * MINUTE_S, max_unavailable=Amount(share=0.05)),
)
BUDGET_S = sum(level.budget_s for level in LEVELS_OF_A_NIGHT)
AT_WORK = 0.35
"""Share of the hosts without a job that have one at the next night; some 45 % have one then."""
MOST_NIGHTS_AT_WORK = 4
"""No job keeps a host longer, but the next may follow it."""
BEGINS = 0.01
"""Share of the idle hosts that get a job from one batch to the next."""
HANGS = 0.005
USUAL_S = {"nightly": 230.0, "weekly": 800.0, "monthly": 5000.0}
LONGEST_S = {"nightly": 900.0, "weekly": 1800.0, "monthly": 7200.0}
ALWAYS_AT_WORK, DEAD = "n007", "n008"
FAILS_FROM = {"n020": 3, "n021": 3, "n050": 10, "n110": 12, "n111": 25}
FLAPS = ("n030", "n031", "n032")
DOWN_NIGHTS = {"n040": range(5, 12), "n041": range(8, 10)}


@dataclass
class Night:
    """What a night came to.

    ``together`` counts the hosts that ran together, ``late`` are hosts and links by level,
    ``passed`` bounds that did not hold. ``news`` is what people are told, empty for no message.
    """

    number: int
    measured: Counter[str] = field(default_factory=Counter)
    used_s: float = 0.0
    busy: int = 0
    together: int = 0
    news: tuple[str, ...] = ()
    late: list[str] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)


class Fleet:
    """The hosts, their jobs and faults, and what was measured of them."""

    def __init__(self, hosts: int, seed: int, *, faults: bool = True) -> None:
        self.dice = random.Random(seed)
        self.faults = faults
        self.told = State()
        self.hosts = [f"n{n:03}" for n in range(hosts)]
        self.places = {
            host: (f"r{n % RACKS}", f"f{n % RACKS % FEEDS}") for n, host in enumerate(self.hosts)
        }
        self.jobs = {host: self._job() for host in self.hosts}
        self.state = SweepState()
        self.visits: list[PastVisit] = []
        self.records: list[tuple[datetime, MultiHostRecord]] = []
        self.passed_over: Counter[tuple[str, str]] = Counter()
        """Nights on which a host was free, due at a level and left for the next sweep, by both."""
        self.longest: Counter[str] = Counter()
        """The most of these nights in turn, by level."""

    def _job(self) -> int:
        """Return for how many nights a host is at work from now on; mostly for none or one."""
        if self.dice.random() > AT_WORK:
            return 0
        return min(MOST_NIGHTS_AT_WORK, 1 + int(self.dice.expovariate(0.9)))

    def night_begins(self) -> None:
        """End the jobs whose nights are over, and begin others."""
        for host, nights in self.jobs.items():
            self.jobs[host] = nights - 1 if nights > 1 else self._job()

    def states(self, night: int) -> dict[str, NodeState]:
        """Return what the scheduler says now."""
        made = {}
        for host in self.hosts:
            at_work = self.jobs[host] > 0 or (self.faults and host == ALWAYS_AT_WORK)
            made[host] = NodeState(state=BUSY if at_work else IDLE, at_work=at_work)
            if self.faults and night in DOWN_NIGHTS.get(host, ()):
                made[host] = NodeState(state=DOWN)
        return made

    def jobs_begin(self) -> None:
        """Let jobs begin on some hosts that are idle."""
        for host, nights in self.jobs.items():
            if not nights and self.dice.random() < BEGINS:
                self.jobs[host] = 1

    def visit(self, host: str, level: Level, at: datetime, night: int, left_s: float) -> PastVisit:
        """Visit a host; what takes longer than there is time is cut short."""
        took_s = self.dice.gauss(USUAL_S[level.name], 0.06 * USUAL_S[level.name])
        if self.faults and self.dice.random() < HANGS:
            took_s = LONGEST_S[level.name]
        flaps = host in FLAPS and self.dice.random() < 0.4
        bad = self.faults and (flaps or night >= FAILS_FROM.get(host, 10**6))
        outcome, state = ("fail" if bad else "pass"), "reported"
        if self.faults and host == DEAD:
            took_s, state, outcome = 10.0, "unreachable", "inconclusive"
        elif took_s > left_s:
            took_s, state, outcome = left_s, "partial", "inconclusive"
        return PastVisit(
            *(host, f"{at:%Y%m%dT%H%M%SZ}", at, level.name, state, outcome),
            loaded=state == "reported",
            duration_s=took_s,
        )


def sweep(fleet: Fleet, number: int) -> Night:
    """Let a night pass over the fleet, and return what it came to."""
    fleet.night_begins()
    began = START + timedelta(days=number, seconds=fleet.dice.uniform(0, 1800))
    night, states = Night(number), fleet.states(number)
    fleet.state, _ = with_hosts(fleet.state, fleet.hosts, began)
    current, _ = under_way(fleet.state, "fleet", began, BUDGET_S)
    fleet.state = replace(fleet.state, under_way=current)
    visited: set[str] = set()
    parts = []
    for level in LEVELS_OF_A_NIGHT:
        now = began + timedelta(seconds=night.used_s)
        parts.append(_part(fleet, night, level, now, visited, states))
    end = began + timedelta(seconds=night.used_s)
    fleet.state = after(fleet.state, parts, end)
    night.news = _told(fleet, number, began, end, parts)
    if night.used_s > BUDGET_S:
        night.passed.append(f"{night.used_s:.0f} s of {BUDGET_S:.0f} s")
    return night


def _told(
    fleet: Fleet, number: int, began: datetime, end: datetime, parts: Sequence[LevelResult]
) -> tuple[str, ...]:
    """Return what people are told of a night."""
    visits = [visit for part in parts for visit in part.visits]
    problems = [
        Problem(visit.host, "planted" if visit.state == "reported" else WHOLE_HOST, outcome)
        for visit in visits
        for outcome in ({"reported": visit.outcome}.get(visit.state, "inconclusive"),)
        if outcome != "pass" and visit.state != "partial"  # the time was over
    ]
    well = {
        visit.host: frozenset(("planted", WHOLE_HOST))
        for visit in visits
        if visit.outcome == "pass"
    }
    late = {host: int(age_s // DAY_S) for part in parts for host, age_s in part.late.items()}
    links = {host: why for part in parts for host, why in part.late_links.items()}
    swept = Sweep(
        *(f"sweep.{number}", {level.name: level.every_s for level in LEVELS_OF_A_NIGHT}, "fleet"),
        *(as_text(began), as_text(end), tuple(fleet.hosts), len(well)),
        late=late,
        late_links=links,
    )
    fleet.told, message = changes(fleet.told, swept, [RunProblems("run", tuple(problems), well)])
    return tuple(f"{len(g.hosts)} {g.kind}" for g in message.groups) if message else ()


def _part(
    fleet: Fleet, night: Night, level: Level, now: datetime, visited: set[str], states: States
) -> LevelResult:
    past = visit_history(fleet.state, fleet.hosts, fleet.visits, states)
    due = candidates([host for host in fleet.hosts if host not in visited], level, past, now)
    queue = Queue(due, level, len(fleet.hosts), fleet.places, drained=False)
    at_once = level.at_once(len(fleet.hosts))
    of_rack, of_feed = bounds(fleet.places, at_once)
    made: list[PastVisit] = []
    used_s = _together(fleet, night, level, now, past, due) if level.scopes else 0.0
    while batch := queue.next(fleet.states(night.number), level.budget_s - used_s):
        racks, feeds = (Counter(fleet.places[each.host][n] for each in batch) for n in (0, 1))
        if len(batch) > at_once or max(racks.values()) > of_rack or max(feeds.values()) > of_feed:
            night.passed.append(f"{level.name}: {len(batch)} at once, {racks}, {feeds}")
        if any(fleet.jobs[each.host] for each in batch):
            night.passed.append(f"{level.name}: a host at work was measured")
        left_s = level.budget_s - used_s
        of_batch = [fleet.visit(each.host, level, now, night.number, left_s) for each in batch]
        used_s += max(visit.duration_s for visit in of_batch)
        made += of_batch
        fleet.jobs_begin()
    if used_s > level.budget_s:
        night.passed.append(f"{level.name}: {used_s:.0f} s of {level.budget_s:.0f} s")
    part = LevelResult(
        level, tuple(each.host for each in due), tuple(made), kept_out=queue.kept_out
    )
    part = ended(part, past, fleet.hosts, visited, now, blind=False)
    night.late += [f"{level.name} {host}" for host in part.late]
    night.measured[level.name] = len(part.measured)
    night.busy += len(part.busy)
    night.used_s += used_s
    for host in part.measured:
        fleet.passed_over[level.name, host] = 0
    for each in queue.waiting:
        fleet.passed_over[level.name, each.host] += 1
    most = max(fleet.passed_over[level.name, host] for host in fleet.hosts)
    fleet.longest[level.name] = max(most, fleet.longest[level.name])
    visited |= {visit.host for visit in made}
    fleet.visits += made
    return part


def _together(
    fleet: Fleet,
    night: Night,
    level: Level,
    now: datetime,
    past: VisitHistory,
    due: Sequence[Candidate],
) -> float:
    """Let hosts run together as long as a class of links is due; return how long it took, in s."""
    end_s, used_s = together_s(level, level.budget_s, due), 0.0
    while True:
        links = links_of(level, fleet.places, fleet.records, past.first_seen)
        free = free_together(fleet.hosts, past, fleet.states(night.number), drained=False)
        group = links.next_group(free, end_s - used_s, now)
        if not group:
            break
        if len(group) > level.at_once(len(fleet.hosts)) or any(fleet.jobs[h] for h in group):
            night.passed.append(f"{level.name}: {len(group)} hosts together, or one at work")
        racks, feeds = (Counter(fleet.places[host][n] for host in group) for n in (0, 1))
        of_rack, of_feed = (max(2, most) for most in bounds(fleet.places, len(group)))
        if max(racks.values()) > of_rack or max(feeds.values()) > of_feed:
            night.passed.append(f"{level.name}: {len(group)} together, {racks}, {feeds}")
        used_s += links.takes_s(len(group))
        night.together += len(group)
        fleet.jobs_begin()
        if any(fleet.jobs[host] for host in group):
            break  # given up, and nothing of it is known
        groups = combinations(group, 2) if level.scopes[0] == "pairs" else [group]
        runs = tuple(
            MultiHostRun(level.scopes[0], 0, each, "all_reduce", 0, "done", duration_s=ROUND_S)
            for each in groups
        )
        fleet.records.append((now, MultiHostRecord(level.scopes, group, runs=runs)))
    if used_s > end_s:
        night.passed.append(f"{level.name}: together for {used_s:.0f} s of {end_s:.0f} s")
    night.late += [f"{level.name} links {class_text(of)}" for of in links.late(now)]
    return used_s


def nights_to_cover(fleet: Fleet, level: Level, amount: int) -> tuple[int, float]:
    """Return after how many nights every class of links was measured, and the longest gap in days.

    The nights are 0 where one never was.
    """
    marks = {of: [START] for of in classes(fleet.places)}
    for at, record in fleet.records:
        for pair in measured_links([(at, record)], level.scopes[0]):
            marks[link_class(pair, fleet.places)].append(at)
    end = START + timedelta(days=amount)
    gaps = [
        (later - sooner).total_seconds() / DAY_S
        for times in marks.values()
        for sooner, later in itertools.pairwise([*times, end])
    ]
    first = [times[1] if len(times) > 1 else end for times in marks.values()]
    covered = max((at - START).days + 1 for at in first)
    return (covered if max(first) < end else 0), max(gaps)


def longest_gaps_d(fleet: Fleet, level: Level, amount: int) -> dict[str, float]:
    """Return for each host the longest time without a measurement at a level, in days."""
    marks = {host: [START] for host in fleet.hosts}
    for visit in fleet.visits:
        if visit.measured_at(level.name):
            marks[visit.host].append(visit.at)
    end = START + timedelta(days=amount)
    return {
        host: max(
            (later - sooner).total_seconds() / DAY_S
            for sooner, later in itertools.pairwise([*times, end])
        )
        for host, times in marks.items()
    }


def what_does_not_hold(fleet: Fleet, of_nights: list[Night]) -> list[str]:
    """Return a line for each bound that was passed and each promise that was not kept."""
    wrong = [f"night {each.number}: {text}" for each in of_nights for text in each.passed]
    for level in LEVELS_OF_A_NIGHT:
        limit_d = level.at_latest_s / DAY_S
        if fleet.longest[level.name] >= limit_d:
            wrong.append(f"{level.name}: a host was passed over {fleet.longest[level.name]} times")
        if level.scopes and nights_to_cover(fleet, level, len(of_nights))[1] > limit_d:
            wrong.append(f"{level.name}: a class of links was not measured in {limit_d:.0f} days")
        gaps = longest_gaps_d(fleet, level, len(of_nights))
        late = {text for each in of_nights for text in each.late if " links " not in text}
        named = {text.split()[1] for text in late if level.name in text}
        # A night may begin shortly before a host is late, and the next one measure it.
        silent = {host for host, gap in gaps.items() if gap > limit_d + 1.1} - named
        wrong += [f"{level.name}: {host} is late and not named" for host in sorted(silent)]
        cried = {host for host in named if gaps[host] <= limit_d}
        wrong += [f"{level.name}: {host} is named and not late" for host in sorted(cried)]
    return wrong


def main() -> int:
    """Print a line for each night, and what did not hold."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hosts", type=int, default=200)
    parser.add_argument("--nights", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print("night  monthly weekly nightly  together  at work  minutes  late  told")
    of_nights: list[Night] = []
    fleet = Fleet(given.hosts, given.seed)
    for number in range(given.nights):
        night = sweep(fleet, number)
        of_nights.append(night)
        counts = [night.measured[level.name] for level in LEVELS_OF_A_NIGHT]
        print(
            f"{night.number:5}  {counts[0]:7} {counts[1]:6} {counts[2]:7}  {night.together:8}  "
            f"{night.busy:7}  "
            f"{night.used_s / 60:7.0f}  {len(night.late):4}  {', '.join(night.news)}"
        )
    for level in LEVELS_OF_A_NIGHT:
        gaps = sorted(longest_gaps_d(fleet, level, given.nights).values())
        print(
            f"{level.name}: measured anew after {gaps[len(gaps) // 2]:.1f} days at most on half of "
            f"the hosts, {gaps[int(0.95 * len(gaps))]:.1f} on 95 %; stated "
            f"{level.at_latest_s / DAY_S:.0f}; a free host was passed over "
            f"{fleet.longest[level.name]} nights in turn at most"
        )
        if level.scopes:
            covered, gap_d = nights_to_cover(fleet, level, given.nights)
            print(
                f"{level.name}: {len(classes(fleet.places))} classes of links, all measured within "
                f"{covered or '-'} nights, and each again after {gap_d:.1f} days at most"
            )
    print(f"messages: {sum(bool(night.news) for night in of_nights)} in {given.nights} nights")
    wrong = what_does_not_hold(fleet, of_nights)
    print("\n".join(wrong) or "every bound holds")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
