"""A fleet with planted faults, measured as the algorithms measure one."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from hwcheck.results.multi_host import MultiHostOutcome, worst_kind

Fault = Mapping[tuple[str, ...], str]
"""One host or two (a link), and its kind."""

HEALTHY_GBPS = 20.0


@dataclass
class Fleet:
    """Healthy pairs spread by ``noise``; a slow part has ``slow`` of the bandwidth.

    Where ``racks`` are given, what is between them shows as ``between`` as soon as a run has
    ``uplink_hosts`` hosts of two of them.
    """

    faults: Fault
    seed: int = 0
    noise: float = 0.1
    slow: float = 0.2
    racks: tuple[tuple[str, ...], ...] = ()
    between: str = ""
    uplink_hosts: int = 1
    runs: list[tuple[str, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def measure(self, hosts: tuple[str, ...]) -> MultiHostOutcome:
        assert len(set(hosts)) == len(hosts) >= 2, "a run takes two different hosts"
        self.runs.append(hosts)
        kinds = [kind for part, kind in self.faults.items() if set(part) <= set(hosts)]
        crowded = [rack for rack in self.racks if len(set(rack) & set(hosts)) >= self.uplink_hosts]
        kinds += [self.between] if len(crowded) > 1 else []
        worst = worst_kind(kinds)
        share = self.slow if worst == "slow" else 1.0
        busbw = HEALTHY_GBPS * share * (1 - self.noise * self._random.random())
        if worst not in ("ok", "slow"):
            return MultiHostOutcome(worst)
        return MultiHostOutcome("ok", busbw, busbw * 1.02)

    def pairs(self, hosts: Iterable[str]) -> dict[tuple[str, str], MultiHostOutcome]:
        return {pair: self.measure(pair) for pair in combinations(hosts, 2)}


def names(amount: int) -> list[str]:
    return [f"n{number:02d}" for number in range(1, amount + 1)]
