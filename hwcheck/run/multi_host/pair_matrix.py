"""The pairs of a tournament side by side: which hosts, which links stand out. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hwcheck.run.multi_host.reference import Pairs, Reference


@dataclass(frozen=True)
class Standouts:
    """Who stands out before a second look. ``good`` are the hosts that do not.

    ``reference`` is what a healthy run reaches. ``groups`` are hosts that are fine among themselves
    and bad with those of every other group: nothing is wrong with them, but with what is between.
    """

    hosts: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    good: tuple[str, ...]
    reference: Reference
    groups: tuple[tuple[str, ...], ...] = ()


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
    groups = _groups(names, pairs, bad)
    if groups:
        good = tuple(name for group in groups for name in group)
        alone = tuple(name for name in names if name not in good)
        return Standouts(alone, (), good, reference, groups)
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


def _groups(
    names: Iterable[str], pairs: Pairs, bad: set[tuple[str, str]]
) -> tuple[tuple[str, ...], ...]:
    """Return the groups of two hosts and more that only what is between them spoils.

    Within a group every pair is fine, and every pair of two groups is bad; nothing where that is
    not so, or there is one group only.
    """
    group_of = {name: {name} for name in names}
    for one, other in pairs.keys() - bad:
        if group_of[one] is not group_of[other]:
            group_of[one] |= group_of[other]
            for name in group_of[other]:
                group_of[name] = group_of[one]
    if any(group_of[one] is group_of[other] for one, other in bad):
        return ()
    distinct = dict.fromkeys(tuple(sorted(group)) for group in group_of.values() if len(group) > 1)
    return tuple(distinct) if len(distinct) > 1 else ()


def _bad_share(name: str, among: Iterable[str], pairs: Pairs, bad: set[tuple[str, str]]) -> float:
    others = set(among) - {name}
    met = [pair for pair in pairs if name in pair and (set(pair) - {name}) & others]
    return sum(pair in bad for pair in met) / len(met) if met else 0.0


def _median(name: str, pairs: Pairs) -> float:
    figures = sorted(outcome.busbw_gbps for pair, outcome in pairs.items() if name in pair)
    return figures[len(figures) // 2]
