"""Files that hwcheck brings: where they are, beside a checkout or inside the wheel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

PACKAGE = Path(__file__).resolve().parent
ROOTS = (PACKAGE / "share", PACKAGE.parent)
"""The wheel's copy first: in a checkout there is none."""
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def find(name: str) -> Path | None:
    """Return ``name`` as given where it exists, otherwise the copy that hwcheck brings, or None.

    Only ``inventory/``, ``playbooks/`` and ``roles/`` are looked up in what hwcheck brings.
    """
    path = Path(name)
    return path if path.exists() else brought(name)


def brought(name: str) -> Path | None:
    """Return the copy of ``name`` that hwcheck brings, whatever lies in the current folder."""
    path = Path(name)
    if path.is_absolute() or path.parts[:1] not in {("inventory",), ("playbooks",), ("roles",)}:
        return None
    return next((root / path for root in ROOTS if (root / path).exists()), None)


def parse_yaml(text: str) -> Any:
    """Return what a YAML file holds, read in C where PyYAML has it: a tenth of the time.

    Raises yaml.YAMLError. For files of our own: of a user's broken file, PyYAML's reader in Python
    says more.
    """
    return yaml.load(text, LOADER)  # noqa: S506 (a safe loader)
