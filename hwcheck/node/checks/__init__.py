"""The checks: one file each. The folder listing is the registry."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Dict

from hwcheck.node.check import Check


def load() -> Dict[str, Check]:
    """Return every check by its id. Works from the zip as well.

    Checks that load the node come after the others: what is measured at idle must be measured
    before them. Those that look back on the load are the last.
    """
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    found = [getattr(importlib.import_module(__name__ + "." + name), name) for name in names]
    found.sort(key=lambda check: (check.after_load, check.load, check.id))
    return {check.id: check for check in found}
