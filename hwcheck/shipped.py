"""Where the inventory, the roles and the playbooks are: beside a checkout, or inside the wheel."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent
ROOTS = (PACKAGE / "share", PACKAGE.parent)
"""The wheel's copy first: in a checkout there is none."""


def find(name: str) -> Path | None:
    """Return ``name`` as given where it exists, otherwise the copy that hwcheck brings, or None.

    Only ``inventory/``, ``playbooks/`` and ``roles/`` are looked up in what hwcheck brings.
    """
    path = Path(name)
    if path.exists():
        return path
    if path.is_absolute() or path.parts[:1] not in {("inventory",), ("playbooks",), ("roles",)}:
        return None
    return next((root / path for root in ROOTS if (root / path).exists()), None)
