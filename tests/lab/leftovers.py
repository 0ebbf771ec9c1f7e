"""What of a lab is there, by its slot."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.lab.network import PREFIX, ip


def left_of(slot: int) -> list[str]:
    """Return the namespaces, links, mounts and folders of a slot, each with its kind."""
    stem = f"{PREFIX}{slot}-"
    links = (line.split(":")[1].strip() for line in ip("-o", "link", "show").splitlines())
    mounts = (line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines())
    return [
        *(f"netns {line}" for line in ip("netns", "list").splitlines() if line.startswith(stem)),
        *(f"link {name}" for name in links if name.startswith(stem)),
        *(f"mount {path}" for path in mounts if f"/{stem}" in path),
        *(f"folder {path}" for path in Path(tempfile.gettempdir()).glob(f"{stem}*")),
    ]
