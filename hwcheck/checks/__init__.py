"""The checks: one file each. The folder listing is the registry."""

from __future__ import annotations

import importlib
from functools import lru_cache
from typing import Dict, Iterable, Optional, Sequence, Tuple

from hwcheck.contract.check import Check, Metric

ON_DEMAND = ("dcgm_diag", "gate_proof")
"""Checks that run only where a flag names them: one takes hours, the other is about hwcheck."""


def load(names: Optional[Sequence[str]] = None) -> Dict[str, Check]:
    """Return the checks of these names, or every check, by its id and ``in_order``.

    Raises ImportError for a name that no check has. On a node a site's checks lie among ours.
    """
    return in_order(_imported(name) for name in (listing() if names is None else names))


def in_order(checks: Iterable[Check]) -> Dict[str, Check]:
    """Return checks by id, in the order in which they run.

    Checks that load the node come after the others: what is measured at idle must be measured
    before them. Of these the collectives come first, and those that look back on all of it are the
    last.
    """
    return {check.id: check for check in sorted(checks, key=_order)}


def telling(fact: str) -> Tuple[Check, Metric]:
    """Return the check and the metric that tell a fact of a host or GPU (``Metric.fact``).

    Raises KeyError for one that none tells.
    """
    return _telling()[fact]


@lru_cache(maxsize=None)
def _telling() -> Dict[str, Tuple[Check, Metric]]:
    every = load(listing())
    return {m.fact: (check, m) for check in every.values() for m in check.metrics if m.fact}


def _order(check: Check) -> Tuple[bool, bool, bool, str]:
    return check.after_load, check.load, check.load and not check.legs, check.id


@lru_cache(maxsize=None)  # all are asked for once for each host that is judged
def _imported(name: str) -> Check:
    made: Check = getattr(importlib.import_module(__name__ + "." + name), name)
    return made


@lru_cache(maxsize=None)
def listing() -> Tuple[str, ...]:
    """Return the names of the checks in this folder."""
    import pkgutil  # here: a node is told the names, and every import costs it milliseconds

    modules = pkgutil.iter_modules(__path__)
    return tuple(module.name for module in modules if not module.ispkg)
