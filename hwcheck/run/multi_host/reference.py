"""What a healthy run over some hosts reaches, by their pairs. Hosts are held against like ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from hwcheck.results.multi_host import SLOW_SHARE, MultiHostOutcome

Pairs = Mapping[tuple[str, str], MultiHostOutcome]
ENOUGH = 3
"""Of two hosts that differ from the others, and are slow, one may be a healthy one's victim."""


class Reference:
    """Figures are busbw in 1e9 B/s; 0 where no pair came to its end.

    Where all hosts are alike, it is the upper median of every host's best pair. A host of another
    kind may rightly reach less: of several kinds each has the best that one of its hosts reached,
    and a run goes by the least of its hosts' kinds.
    """

    def __init__(self, pairs: Pairs, kinds: Mapping[str, str] = MappingProxyType({})) -> None:
        best: dict[str, float] = {}
        for pair, outcome in pairs.items():
            if outcome.kind == "ok":
                for name in pair:
                    best[name] = max(best.get(name, 0.0), outcome.busbw_gbps)
        self._kinds = {name: kinds.get(name, "") for pair in pairs for name in pair}
        ordered = sorted(best.values())
        usual = ordered[len(ordered) // 2] if ordered else 0.0
        self._gbps: dict[str, float] = dict.fromkeys(self._kinds.values(), usual)
        if len(self._gbps) > 1:
            of_kind = {
                kind: [best[name] for name in best if self._kinds[name] == kind]
                for kind in self._gbps
            }
            self._gbps = {kind: max(each, default=0.0) for kind, each in of_kind.items()}
        self.best_gbps = max(self._gbps.values(), default=0.0)

    def of(self, hosts: Iterable[str]) -> float:
        """Return what these hosts should reach together."""
        figures = (self._gbps.get(self._kinds.get(name, ""), 0.0) for name in hosts)
        return min((gbps for gbps in figures if gbps), default=self.best_gbps)

    def share(self, hosts: Iterable[str]) -> float:
        """Return that as a share of the best."""
        return self.of(hosts) / self.best_gbps if self.best_gbps else 1.0

    def not_compared(self) -> dict[str, str]:
        """Return the hosts far below the others with too few of their kind to compare, and why."""
        reasons = {}
        for kind, gbps in self._gbps.items():
            names = [name for name, each in self._kinds.items() if each == kind]
            if len(names) < ENOUGH and 0 < gbps < SLOW_SHARE * self.best_gbps:
                reason = (
                    f"up to {gbps:.3g} GB/s where others reach {self.best_gbps:.3g}, and unlike "
                    f"them ({kind}): nothing to compare with"
                )
                reasons.update(dict.fromkeys(names, reason))
        return reasons
