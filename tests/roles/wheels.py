"""A wheel of our own, so that no package index is needed."""

from __future__ import annotations

import zipfile
from pathlib import Path

FILES = {
    "demo_pkg.py": "",
    "demo_pkg-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo-pkg\nVersion: 1.0\n",
    "demo_pkg-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\n"
    "Tag: py3-none-any\n",
    "demo_pkg-1.0.dist-info/RECORD": "",
}


def write_wheel(folder: Path) -> None:
    """Write demo-pkg 1.0 into a folder."""
    with zipfile.ZipFile(folder / "demo_pkg-1.0-py3-none-any.whl", "w") as wheel:
        for name, text in FILES.items():
            wheel.writestr(name, text)
