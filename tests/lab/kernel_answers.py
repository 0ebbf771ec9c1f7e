"""What no file under a root can hold: a limit, a clock, the sizes of file systems.

A library that is loaded ahead of libc (``kernel_answers.c``) answers these in place of the kernel,
for the processes that have the environment that ``install`` returns.
"""

from __future__ import annotations

import os
import pwd
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lab.tree_writer import section

SOURCE = Path(__file__).with_suffix(".c")
LIBRARY = "kernel_answers.so"
FILESYSTEM = {"size_gib": 400, "free_gib": 300, "read_only": False}


def build(folder: Path) -> Path:
    """Compile the library into a folder and return its path."""
    library = folder / LIBRARY
    command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library)]
    subprocess.run([*command, str(SOURCE), "-ldl"], check=True, timeout=60)
    return library


def write(file: Path, root: Path, host: Mapping[str, Any]) -> None:
    """Write what the library reads."""
    file.write_text(text(root, host))


def text(root: Path, host: Mapping[str, Any]) -> str:
    """Return what the library reads. ``root`` is the folder that the payload takes for ``/``."""
    limit = host.get("memlock_kib")
    lines = [
        f"memlock {'unlimited' if limit is None else limit * 1024}",
        f"clock {int(host.get('clock_synchronized', True))}",
    ]
    usual: dict[str, Any] = {
        "/": {},
        "/tmp": {},
        "/dev/shm": {},
        pwd.getpwuid(os.getuid()).pw_dir: {},
    }
    for path, own in {**usual, **host.get("filesystems", {})}.items():
        says = section(own, f"host: filesystems: {path}", FILESYSTEM)
        size, free = (int(says[name] * 2**30) for name in ("size_gib", "free_gib"))
        place = os.path.join(os.path.realpath(root), path.lstrip("/")).rstrip("/")
        lines.append(f"filesystem {place} {size} {free} {int(says['read_only'])}")
    return "\n".join(lines) + "\n"
