"""What packages stand on, by what the installed ones say of themselves."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


def closure(names: Iterable[str]) -> set[str]:
    """Return these packages, what they need, and what that needs, of this Python."""
    needed: set[str] = set()
    wanted = [(name, frozenset[str]()) for name in names]
    while wanted:
        name, extras = wanted.pop()
        if name in needed:
            continue
        needed.add(name)
        for text in metadata.requires(name) or ():
            one = Requirement(text)
            if one.marker is None or any(
                one.marker.evaluate({"extra": extra}) for extra in (*extras, "")
            ):
                wanted.append((canonicalize_name(one.name), frozenset(one.extras)))
    return needed
