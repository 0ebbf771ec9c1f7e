"""Runs made to find a culprit: each set of hosts once, and the second look before an accusation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from hwcheck.results.multi_host import SLOW_SHARE, MultiHostOutcome, Suspect, worst_kind

Hosts = tuple[str, ...]
Measure = Callable[[Hosts], MultiHostOutcome]
Share = Callable[[Hosts], float]

PARTNERS = 2
"""So many known-good hosts must fail with a suspect before it is accused."""


class Trials:
    """Remembers what each set of hosts came to; ``runs`` counts what was measured.

    ``reference_gbps`` is a bandwidth known to be usual; without one, the best of the runs made here
    stands for it. ``good`` are hosts that are known to be fine, besides those that turn out to be.
    ``share`` says which share of the reference some hosts can reach.
    """

    def __init__(
        self,
        measure: Measure,
        reference_gbps: float = 0.0,
        good: Iterable[str] = (),
        share: Share = lambda _: 1.0,
    ) -> None:
        self.outcomes: dict[frozenset[str], tuple[Hosts, MultiHostOutcome]] = {}
        self.runs = 0
        self._measure = measure
        self._reference_gbps = reference_gbps
        self._good = list(good)
        self._share = share

    @property
    def reference_gbps(self) -> float:
        """What runs are held against, in 1e9 B/s."""
        reached = (o.busbw_gbps / self._share(hosts) for hosts, o in self.outcomes.values())
        return self._reference_gbps or max(reached, default=0.0)

    def run(self, hosts: Iterable[str]) -> MultiHostOutcome:
        """Return what these hosts come to together, at least two; they run once only."""
        names = tuple(hosts)
        key = frozenset(names)
        if key not in self.outcomes:
            self._fresh(names)
        return self.outcomes[key][1]

    def _fresh(self, hosts: Hosts) -> None:
        self.runs += 1
        self.outcomes[frozenset(hosts)] = (hosts, self._measure(hosts))

    def kind(self, hosts: Iterable[str]) -> str:
        """Return ok or what is wrong with these hosts together, by what is known by now."""
        names = tuple(hosts)
        return self._kind(names, self.run(names))

    def _kind(self, hosts: Hosts, outcome: MultiHostOutcome) -> str:
        return outcome.kind_against(self.reference_gbps * self._share(hosts))

    def bad(self, hosts: Iterable[str]) -> bool:
        """Whether something is wrong with these hosts together."""
        return self.kind(hosts) != "ok"

    def good(self, without: Iterable[str] = ()) -> list[str]:
        """Return the hosts that took part in a run with which nothing is wrong."""
        left_out = set(without)
        fine = [hosts for hosts, o in self.outcomes.values() if self._kind(hosts, o) == "ok"]
        names = dict.fromkeys(chain(chain.from_iterable(fine), self._good))
        return [name for name in names if name not in left_out]

    def confirm(self, host: str, without: Iterable[str] = ()) -> list[Suspect]:
        """Pair a host with known-good ones and say what it, or a link of it, is suspected of.

        The host is accused when it is bad with each of ``PARTNERS`` partners; where it is bad with
        some partners only, and is so again, the links to them are. Nothing is said where there is
        no partner (``without`` are none) or all is well on the second look.
        """
        partners = self._equals(host, self.good([host, *without]))
        met = [name for name in partners if frozenset((host, name)) not in self.outcomes]
        fresh = [*met, *(name for name in partners if name not in met)][:PARTNERS]
        kinds = {name: self.kind((host, name)) for name in fresh}
        if not kinds:
            return []
        if "ok" not in kinds.values():
            evidence = self._evidence([host], partners, without)
            return [Suspect((host,), worst_kind(kinds.values()), evidence)]
        bad = [name for name in partners if self._bad_twice(host, name)]
        return [
            Suspect(
                (host, name),
                self.kind((host, name)),
                self._evidence([host, name], partners, without),
            )
            for name in bad
        ]

    def _equals(self, host: str, partners: Sequence[str]) -> list[str]:
        """Return the partners beside which a slow host can be told: it looks fine beside others."""
        shares = {name: self._share((host, name)) for name in partners}
        most = max(shares.values(), default=1.0)
        return [name for name in partners if shares[name] >= SLOW_SHARE * most]

    def confirm_link(self, one: str, other: str) -> list[Suspect]:
        """Run two hosts alone and each with a known-good third; say what is suspected."""
        if not self.bad((one, other)) or not self._bad_twice(one, other):
            return []
        for host, peer in ((one, other), (other, one)):
            partners = self.good([one, other])[:PARTNERS]
            if partners and all(self.bad((host, name)) for name in partners):
                return self.confirm(host, [peer])
        pair = (one, other)
        return [Suspect(pair, self.kind(pair), self._evidence(pair, self.good(pair)))]

    def _bad_twice(self, one: str, other: str) -> bool:
        """Whether two hosts were bad together, and are so again."""
        pair = (one, other)
        if frozenset(pair) not in self.outcomes or not self.bad(pair):
            return False
        self._fresh(pair)
        return self.bad(pair)

    def _evidence(
        self, searched: Sequence[str], partners: Sequence[str], without: Iterable[str] = ()
    ) -> tuple[str, ...]:
        """Return the pairs of these hosts, and the best that others reach without them.

        A pair with another suspect (``without``) is evidence against neither.
        """
        lines, best, left_out = [], 0.0, set(without) - set(searched)
        for hosts, outcome in self.outcomes.values():
            if left_out & set(hosts):
                continue
            if len(hosts) == 2 and set(hosts) & set(searched):
                lines.append(f"{hosts[0]} with {hosts[1]}: {outcome.text()}")
            elif not set(hosts) & set(searched):
                best = max(best, outcome.busbw_gbps)
        best = best or self._reference_gbps
        if best:
            others = "without " + " and ".join(searched) if partners else "elsewhere"
            lines.append(f"{others}: up to {best:.3g} GB/s")
        return tuple(lines)
