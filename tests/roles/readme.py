"""The command of the README that says what would change, as it stands there."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from tests.roles.machine import PLAY_S, Machine
from tests.roles.stated import HWCHECK

README = Path(__file__).parents[2] / "README.md"
LINE = re.compile(r"^(hwcheck provision --hosts cluster\.yml --check --diff) +#", re.MULTILINE)


def what_would_change(
    machine: Machine, folder: Path, **variables: object
) -> subprocess.CompletedProcess[str]:
    """Type it in a folder in which cluster.yml has the machine with these variables."""
    (typed,) = LINE.findall(README.read_text("utf-8"))
    (folder / "cluster.yml").symlink_to(machine.inventory(**variables))
    return subprocess.run(
        [HWCHECK, *shlex.split(typed)[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=PLAY_S,
    )
