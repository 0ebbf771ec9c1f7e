"""How a rule is declared, and where all of them are."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache

from hwcheck.advise import rules
from hwcheck.advise.case import Case
from hwcheck.advise.cause_records import Rule, Sign

Look = Callable[[Case], Sign | None]


def rule(
    *, title: str, follows: str, fix: str, confirm: str, source: str, role: str = ""
) -> Callable[[Look], Rule]:
    """Register a function as the rule of the cause that it is named after."""

    def register(look: Look) -> Rule:
        return Rule(look.__name__, look, title, follows, fix, confirm, source, role)

    return register


@cache
def load() -> Mapping[str, Rule]:
    """Return every rule by its cause. Raises TypeError for a file without its rule."""
    found = {}
    for module in sorted(item.name for item in pkgutil.iter_modules(rules.__path__)):
        declared = getattr(importlib.import_module(f"{rules.__name__}.{module}"), module, None)
        if not isinstance(declared, Rule):
            raise TypeError(f"hwcheck/advise/rules/{module}.py has no rule named {module}")
        found[module] = declared
    return found
