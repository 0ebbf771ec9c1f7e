"""The checks: one file each. The folder listing is the registry.

The payload holds them all in one file: each by itself would compress badly, and a zip spends more
on the names of small files than on what is in them.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from types import ModuleType
from typing import Any, Dict, List, Optional, Sequence

from hwcheck.node.check import Check

BUNDLE = "checks.json"
"""Sources by check, beside this module in the payload and nowhere else."""


def load(names: Optional[Sequence[str]] = None) -> Dict[str, Check]:
    """Return the checks of these names, or every check, by its id. Works from the zip as well.

    Checks that load the node come after the others: what is measured at idle must be measured
    before them. Those that look back on the load are the last. Raises ImportError for a name that
    no check has.
    """
    bundle = _bundle()
    wanted = (list(bundle) or _listing()) if names is None else names
    found = [getattr(_module(name, bundle), name) for name in wanted]
    found.sort(key=lambda check: (check.after_load, check.load, check.id))
    return {check.id: check for check in found}


def _bundle() -> Dict[str, str]:
    loader: Any = sys.modules[__name__].__spec__.loader  # type: ignore[union-attr]
    try:
        data = loader.get_data(os.path.join(os.path.dirname(__file__), BUNDLE))
    except OSError:
        return {}
    found: Dict[str, str] = json.loads(data)
    return found


def _module(name: str, bundle: Dict[str, str]) -> ModuleType:
    full = __name__ + "." + name
    if name not in bundle or full in sys.modules:
        return importlib.import_module(full)
    module = ModuleType(full)
    module.__file__ = os.path.join(os.path.dirname(__file__), name + ".py")
    sys.modules[full] = module  # dataclasses and NamedTuple look their module up
    code = compile(bundle[name], module.__file__, "exec", dont_inherit=True)
    exec(code, vars(module))  # noqa: S102 - what an import does; the payload's hash was checked
    return module


def _listing() -> List[str]:
    import pkgutil  # here: a node is told the names, and every import costs it milliseconds

    return [module.name for module in pkgutil.iter_modules(__path__)]
