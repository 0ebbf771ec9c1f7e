"""The checks: one file each. The folder listing is the registry."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Dict

from hwcheck.node.check import Check


def load() -> Dict[str, Check]:
    """Return every check by its id, in alphabetical order. Works from the zip as well."""
    found: Dict[str, Check] = {}
    for module in pkgutil.iter_modules(__path__):
        found[module.name] = getattr(importlib.import_module(__name__ + "." + module.name), module.name)
    return found
