"""The pairs of a tournament side by side: which hosts, which links stand out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hwcheck.run.multi_host.reference import Pairs, Reference


@dataclass(frozen=True)
class Standouts:
    """Who stands out before a second look. ``good`` are the hosts that do not.

    ``reference`` is what a healthy run reaches.
    """

    hosts: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    good: tuple[str, ...]
    reference: Reference


def standouts(pairs: Pairs, kinds: Mapping[str, str] = MappingProxyType({})) -> Standouts:
    """Return the hosts that are bad with most of their partners, and the bad links of the others.

    A slow host drags every pair that it is in, so a host is compared with the best that each host
    reaches, which a slow partner cannot spoil. The worst host is taken out before the next is
    looked at: its partners are not held responsible for it. ``kinds`` says which hosts are alike.
    """
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    reference = Reference(pairs, kinds)
    bad = {
        pair for pair, outcome in pairs.items() if outcome.kind_against(reference.of(pair)) != "ok"
    }
    hosts: list[str] = []
    while True:
        left = [name for name in names if name not in hosts]
        shares = {name: _bad_share(name, left, pairs, bad) for name in left}
        worst = max(left, key=lambda name: (shares[name], -_median(name, pairs)), default=None)
        if worst is None or shares[worst] <= 0.5:  # half of two partners is one link
            break
        hosts.append(worst)
    left = [name for name in names if name not in hosts]
    if any(pair[0] in left and pair[1] in left and pair not in bad for pair in pairs):
        links = tuple(pair for pair in pairs if pair in bad and not set(pair) & set(hosts))
        marred = {name for pair in links for name in pair}
        good = tuple(name for name in left if name not in marred) or tuple(left)
        return Standouts(tuple(hosts), links, good, reference)
    return Standouts((), tuple(pair for pair in pairs if pair in bad), (), reference)


def _bad_share(name: str, among: Iterable[str], pairs: Pairs, bad: set[tuple[str, str]]) -> float:
    others = set(among) - {name}
    met = [pair for pair in pairs if name in pair and (set(pair) - {name}) & others]
    return sum(pair in bad for pair in met) / len(met) if met else 0.0


def _median(name: str, pairs: Pairs) -> float:
    figures = sorted(outcome.busbw_gbps for pair, outcome in pairs.items() if name in pair)
    return figures[len(figures) // 2]
