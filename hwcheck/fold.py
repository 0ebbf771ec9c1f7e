"""Fold names for people: ``node01, node02, node03`` becomes ``node[01-03]``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException


def fold(names: Iterable[str]) -> str:
    """Fold names with ClusterShell's NodeSet, in its order and each name once.

    A name that means something else to NodeSet (brackets, set operators, groups, ``%``) is left
    as it is and appended, so that what is shown always stands for exactly the names that came in.
    """
    return _fold(tuple(dict.fromkeys(names)))


@lru_cache(maxsize=4096)
def _fold(names: tuple[str, ...]) -> str:
    plain: list[str] = []
    odd: list[str] = []
    for name in names:
        (plain if _survives(name) else odd).append(name)
    folded = str(_node_set(plain)) if plain else ""
    if plain and set(_node_set([folded])) != set(plain):
        folded = ",".join(plain)
    return ",".join(part for part in (folded, *odd) if part)


def _node_set(names: Sequence[str]) -> NodeSet:
    return NodeSet.fromlist(names, resolver=RESOLVER_NOGROUP)


@lru_cache(maxsize=16384)
def _survives(name: str) -> bool:
    try:
        return list(_node_set([name])) == [name]
    except NodeSetException:
        return False
