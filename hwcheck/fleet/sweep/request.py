"""What a sweep is asked for, what the runs of its hosts tell, and what it would do now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from hwcheck.fleet.notify.config import Notify
from hwcheck.fleet.sweep import state as sweep_state
from hwcheck.fleet.sweep.batches import Places
from hwcheck.fleet.sweep.draining import DrainFailed
from hwcheck.fleet.sweep.levels import LEVELS, Level
from hwcheck.fleet.sweep.links import LinkCoverage, links_of
from hwcheck.fleet.sweep.night import visit_history, with_hosts
from hwcheck.fleet.sweep.plans import LevelPlan, level_plans, shortfall
from hwcheck.fleet.sweep.state import key_of, read_state
from hwcheck.fleet.sweep.visits import PastVisit, Runs, read_runs
from hwcheck.inventory.inventory import Cluster
from hwcheck.results.options import Options
from hwcheck.scheduler.actions import all_states

WHAT = "sweep run of "
BESIDE_JOBS = f"{WHAT}minutes,"
"""What the holder of a lock says that sweeps beside jobs."""
LOOK_BACK = 2
"""So many times the longest ``at_latest`` is the history looked through."""


@dataclass(frozen=True)
class SweepRequest:
    """What ``sweep run`` is asked for; ``whole``: about all hosts of the inventory.

    ``checks`` are those of each level by name, ``loads`` all checks that load a host, and ``site``
    the files of the site by name.
    """

    cluster: Cluster
    levels: tuple[Level, ...]
    checks: Mapping[str, tuple[str, ...]]
    loads: tuple[str, ...]
    budget_s: float
    runs: Path
    whole: bool
    drained: bool
    accept_new_host_keys: bool
    site: Mapping[str, bytes] = field(default_factory=dict)
    notify: Notify | None = None
    drain_failed: DrainFailed | None = None

    @property
    def key(self) -> str:
        """The name of the inventory's files."""
        return key_of(self.cluster.source)

    @property
    def what(self) -> str:
        """What the lock says of it while it is under way."""
        return WHAT + ", ".join(level.name for level in self.levels)

    @property
    def beside_jobs(self) -> bool:
        """Whether it loads nothing, and is none of a night."""
        return not any(level.load for level in self.levels)

    @property
    def names(self) -> list[str]:
        """The hosts."""
        return [host.name for host in self.cluster.hosts]

    @property
    def places(self) -> Places:
        """Rack and power feed of each host."""
        return {
            host.name: (host.settings.rack, host.settings.power_feed) for host in self.cluster.hosts
        }

    def runs_of(self, level: Level) -> Path:
        """Return where the runs of a level are: those beside jobs would bury the others."""
        return self.runs if level.load else self.runs.with_name(f"{self.runs.name}-{level.name}")

    def folders(self) -> dict[Path, Level]:
        """Return the folders with runs of any level; levels that share one stand for each other."""
        return {self.runs_of(level): level for level in LEVELS.values()}

    def options(self, level: Level, sweep: str = "") -> Options:
        """Return what the visits of a level are asked, as part of the sweep of this id."""
        return Options(
            checks=self.checks[level.name],
            profile=level.profile,
            forks=level.at_once(len(self.names)),
            accept_new_host_keys=self.accept_new_host_keys,
            sweep={"id": sweep, "level": level.name} if sweep else {},
        )

    def read(self, level: Level, only: Sequence[str] = ()) -> Runs:
        """Return what ``only`` some runs of a level tell, or all as far back as matters."""
        look_back_s = LOOK_BACK * max(each.at_latest_s for each in self.levels)
        since = sweep_state.now_utc() - timedelta(seconds=look_back_s)
        return read_runs(self.runs_of(level), since, self.checks, self.loads, only)

    def visits(self) -> list[PastVisit]:
        """Return the visits of all runs as far back as matters, in the order of the runs."""
        visits = [visit for level in self.folders().values() for visit in self.read(level).visits]
        return sorted(visits, key=lambda each: each.run)


def plans_now(request: SweepRequest) -> list[LevelPlan]:
    """Return what a sweep would do now, level by level."""
    now = sweep_state.now_utc()
    state, _ = with_hosts(read_state(request.runs, request.key)[0], request.names, now)
    states = all_states(request.cluster.hosts)
    pasts, links = {}, {}
    for level in request.levels:
        read = request.read(level)
        pasts[level.name] = past = visit_history(state, request.names, read.visits, states)
        if level.scopes:
            links[level.name] = links_of(level, request.places, read.together, past.first_seen)
    return level_plans(
        request.levels,
        pasts,
        request.names,
        states,
        request.places,
        now,
        request.budget_s,
        links,
        drained=request.drained,
    )


def preview(request: SweepRequest) -> str:
    """Return who would be measured now, batch by batch, with the reason of each place, and how."""
    plans = plans_now(request)
    lines = [line for plan in plans for line in plan.lines()]
    lines = lines or ["no host is due"]
    lines += [
        f"{plan.level.name}: asked: {'; '.join(request.options(plan.level).in_words())}"
        for plan in plans
        if plan.due
    ]
    if request.drain_failed:
        undrained = read_state(request.runs, request.key)[0].undrained
        lines += [f"to be drained: {host}: {why}" for host, why in undrained.items()]
    return "".join(f"{each}\n" for each in lines)


def shortfalls(request: SweepRequest, plans: Sequence[LevelPlan]) -> Iterator[str]:
    """Yield why hosts, or links between them, cannot all be measured in the stated time."""
    for plan in plans:
        texts = [shortfall(plan.level, plan.due, len(request.names), request.budget_s)]
        if plan.level.scopes:
            texts.append(LinkCoverage(plan.level, request.places, {}, {}).shortfall())
        yield from filter(None, texts)
