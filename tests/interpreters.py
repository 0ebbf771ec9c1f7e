"""Other Python versions of this machine, where it has them."""

from __future__ import annotations

import shutil
from pathlib import Path


def interpreter(version: str) -> str | None:
    """Return the path of ``python<version>`` from pyenv or PATH, or None."""
    for path in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")):
        return str(path)
    return shutil.which(f"python{version}")
