"""The levels of a sweep: what each asks of a host, how often, within which time. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from hwcheck.errors import UsageError
from hwcheck.inventory.expectations import SWEEP
from hwcheck.inventory.inventory import Cluster
from hwcheck.inventory.variables import Variables
from hwcheck.scheduler.records import Amount
from hwcheck.times import length_s

MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 24 * 3600.0

MOST_EARLY_S = 6 * HOUR_S
"""So much earlier than ``every`` a host may have its turn again: no night begins on the minute."""

KEYS = ("every", "at_latest", "budget", "max_unavailable")
SHAPE = '{nightly: {every: 1d, at_latest: 7d, budget: 2h, max_unavailable: "10%"}, monthly: false}'


@dataclass(frozen=True)
class Level:
    """One level of the sweeps of an inventory; times are in seconds.

    A host is due when it was measured well ``every_s`` ago; one that was not for ``at_latest_s`` is
    a finding. ``budget_s`` bounds the level's part of one sweep, and ``visit_s`` is what a visit is
    taken to last while the history knows none. Without ``load``
    only checks that load nothing are run, beside jobs too. ``scopes`` are what hosts run together,
    as in ``validate --scope``. A ``max_unavailable`` that is ``stated``, and no default, is not
    rounded up to one host, nor to two that run together.
    """

    name: str
    profile: str
    every_s: float
    at_latest_s: float
    budget_s: float
    visit_s: float
    max_unavailable: Amount = field(default_factory=lambda: Amount(share=0.1))
    load: bool = True
    scopes: tuple[str, ...] = ()
    stated: bool = False

    @property
    def due_s(self) -> float:
        """How old a measurement is when its host is due again."""
        return self.every_s - min(MOST_EARLY_S, self.every_s / 4)

    def at_once(self, hosts: int) -> int:
        """Return how many of the hosts may be measured at once. Raises UsageError for none."""
        amount = self.max_unavailable.of(hosts)
        if amount == 0 and not self.stated:
            return 1
        if amount == 0:
            least = math.ceil(1000 / hosts) / 10
            raise UsageError(
                f"max-unavailable {self.max_unavailable} of {hosts} hosts is none; "
                f"say a count, or {least:g}% or more"
            )
        return amount

    def together(self, hosts: int) -> int:
        """Return how many of the hosts may run together."""
        amount = self.max_unavailable.of(hosts)
        return amount if self.stated else min(max(amount, 2), hosts)


LEVELS: Mapping[str, Level] = {
    level.name: level
    for level in (
        # Beside jobs: Azure healthagent and AWS HyperPod look every 5 to 60 minutes.
        Level(
            *("minutes", "quick", 15 * MINUTE_S, DAY_S, 10 * MINUTE_S, 30.0),
            max_unavailable=Amount(share=1.0),
            load=False,
        ),
        # Of a fleet that is half at work, 95 % have a turn within 11 to 13 nights, and no host that
        # is free waits for three (benchmarks/sweeps.py).
        Level("nightly", "quick", DAY_S, 14 * DAY_S, 2 * HOUR_S, 4 * MINUTE_S),
        # ClusterMAX, expectations of health checks: active checks of idle nodes every week.
        Level(
            *("weekly", "standard", 7 * DAY_S, 21 * DAY_S, 2 * HOUR_S, 15 * MINUTE_S),
            scopes=("pairs", "rails"),
        ),
        # Burn-in every three to four weeks, as operators of rented GPUs do.
        Level(
            *("monthly", "burn_in", 28 * DAY_S, 56 * DAY_S, 3 * HOUR_S, 95 * MINUTE_S),
            scopes=("all",),
        ),
    )
}
"""From the lightest to the heaviest; what measured a host at one measured it at those before."""
RANK = {name: place for place, name in enumerate(LEVELS)}
NIGHT = tuple(name for name, level in LEVELS.items() if level.load)
"""The levels of a night: all but the one that runs beside jobs."""


def read_levels(cluster: Cluster) -> dict[str, Level]:
    """Return the levels of an inventory: ours, with what ``hwcheck_sweep`` says of them.

    Raises UsageError where that is no such mapping, or hosts have different ones.
    """
    first = cluster.hosts[0]
    declared = first.variables.get(SWEEP)
    for host in cluster.hosts:
        if host.variables.get(SWEEP) != declared:
            raise UsageError(
                f"{cluster.source}: {host.name}: {SWEEP}: unlike that of {first.name}; it is about "
                "the whole inventory: set it on the group all"
            )
    if declared is None:
        return dict(LEVELS)
    variables = Variables(first.name, first.variables, cluster.source)
    levels = dict(LEVELS)
    for name, terms in _mapping(variables, declared, "levels by name are wanted").items():
        if name not in LEVELS:
            raise variables.error(SWEEP, f"{name}: it is none of {', '.join(LEVELS)}")
        level = _level(variables, LEVELS[name], terms)
        if level is None:
            del levels[name]
        else:
            levels[name] = level
    if not levels:
        raise variables.error(SWEEP, "every level is turned off; leave one")
    return levels


def chosen_levels(levels: Mapping[str, Level], asked: str) -> tuple[Level, ...]:
    """Return the levels of a sweep, the heaviest first: the one asked for, or those of a night.

    Raises UsageError.
    """
    if asked and asked not in LEVELS:
        raise UsageError(f"--level {asked[:40]}: it is one of {', '.join(LEVELS)}")
    names = (asked,) if asked else NIGHT
    chosen = tuple(levels[name] for name in reversed(names) if name in levels)
    if not chosen:
        raise UsageError(f"{SWEEP} turns {', '.join(names)} off; choose another with --level")
    return chosen


def _level(variables: Variables, level: Level, terms: Any) -> Level | None:
    if isinstance(terms, bool) or terms is None:
        return level if terms else None
    for key, value in _mapping(variables, terms, f"{level.name}: a mapping is wanted").items():
        if key not in KEYS:
            raise variables.error(SWEEP, f"{level.name}: {key!r} is none of {', '.join(KEYS)}")
        text = variables.value(SWEEP, value)
        try:
            if key == "max_unavailable":
                level = replace(level, max_unavailable=Amount.parse(text), stated=True)
            elif key == "every":
                level = replace(level, every_s=length_s(text))
            elif key == "at_latest":
                level = replace(level, at_latest_s=length_s(text))
            else:
                level = replace(level, budget_s=length_s(text))
        except ValueError as error:
            raise variables.error(SWEEP, f"{level.name}: {key}: {error}") from None
    if level.at_latest_s < level.every_s:
        problem = f"{level.name}: at_latest is less than every; it is when a host counts as missed"
        raise variables.error(SWEEP, problem)
    return level


def _mapping(variables: Variables, value: Any, problem: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise variables.error(SWEEP, f"{problem}; write {SHAPE}")
    return {variables.value(SWEEP, key): terms for key, terms in value.items()}
