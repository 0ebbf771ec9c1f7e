"""Fold names for people: ``node01, node02, node03`` becomes ``node[01-03]``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

MOST_SUBJECTS = 128
"""More than the pairs of 16 GPUs. For names of two numbers NodeSet's time grows faster than the
square of their count: a second for 300 that a node made up."""


def fold_subjects(names: Iterable[str]) -> str:
    """Fold names that come from a node: the first of them, and how many more there are."""
    listed = tuple(dict.fromkeys(names))
    more = len(listed) - MOST_SUBJECTS
    return fold(listed[:MOST_SUBJECTS]) + (f" and {more} more" if more > 0 else "")


def fold(names: Iterable[str]) -> str:
    """Fold names with ClusterShell's NodeSet, in its order and each name once.

    A name that means something else to NodeSet (brackets, set operators, groups, ``%``) is left
    as it is and appended, so that what is shown always stands for exactly the names that came in.
    """
    return _fold(tuple(dict.fromkeys(names)))


@lru_cache(maxsize=4096)
def _fold(names: tuple[str, ...]) -> str:
    if len(names) == 1:
        return names[0]
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


MOST_HOSTS = 65_536
"""A range of more is a slip of the hand."""
_BRACKET = re.compile(r"\[([^\]]*)\]")
_RANGE = re.compile(r"([0-9]{1,18})[-:]([0-9]{1,18})")


def unfold(text: str) -> list[str]:
    """Return the names that a text stands for: ``node[01-03],login``; also ``node[01:03]``.

    Raises ValueError, one line, where it is no such text.
    """
    # ClusterShell would make all numbers of a range before it says how many there are.
    amount = math.prod(
        sum(int(last) - int(first) + 1 for first, last in _RANGE.findall(bracket))
        for bracket in _BRACKET.findall(text)
        if _RANGE.search(bracket)
    )
    if amount > MOST_HOSTS:
        raise ValueError(f"a range of {amount} hosts; at most {MOST_HOSTS}")
    try:
        return list(_node_set([text.replace(":", "-")]))
    except NodeSetException as error:
        raise ValueError(" ".join(str(error).split())) from None
