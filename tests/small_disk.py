"""Use up what is left of a small file system (see the fixture ``small_disk``)."""

import os
from pathlib import Path


def fill(disk: Path) -> None:
    """Leave no room on ``disk``."""
    left = os.statvfs(disk)
    with (disk / "filler").open("ab") as stream:
        stream.write(bytes(left.f_bavail * left.f_frsize))
