"""What matplotlib reads when it is imported: a folder that it can write to, and a backend.

Without such a folder it warns, and leaves one in /tmp if killed; a backend that it does not know,
such as the one that Jupyter sets for its notebooks, ends the import.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


def ensure() -> None:
    """Set the backend, and a folder until this process ends where its own cannot be written to.

    To be called before matplotlib is imported. Raises OSError where no temporary one can be made.
    """
    os.environ["MPLBACKEND"] = "svg"
    if all(map(_writable, _own())):
        return
    folder = tempfile.mkdtemp(prefix="hwcheck-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["MPLCONFIGDIR"] = folder


def _own() -> Iterator[Path]:
    """Yield the folders that matplotlib would take for its configuration and its cache."""
    if os.environ.get("MPLCONFIGDIR"):
        yield Path(os.environ["MPLCONFIGDIR"])
        return
    for variable, below_home in (("XDG_CONFIG_HOME", ".config"), ("XDG_CACHE_HOME", ".cache")):
        base = os.environ.get(variable) or os.path.join(os.path.expanduser("~"), below_home)
        yield Path(base) / "matplotlib"


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK)
