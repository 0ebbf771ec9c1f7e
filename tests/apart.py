"""Tests run in namespaces of their own, each worker of pytest-xdist in others.

Network namespace: a worker's bridges, addresses and abstract sockets (the load lock, the slots of
the lab) are its own. PID and mount namespace: its simulated machines end with it, and it ends with
the pytest that started it, also by SIGKILL.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

APART = (
    *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("sh", str(Path(__file__).with_suffix(".sh"))),
)
WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")


def works() -> bool:
    """Whether this machine and user may make such namespaces."""
    if None in (shutil.which("unshare"), shutil.which("setpriv"), shutil.which("ip")):
        return False
    command = [*WITH_PARENT, *APART, "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def begin(arguments: tuple[str, ...]) -> None:
    """Become a pytest of these arguments that is apart; return where that is so, or cannot be."""
    if "HWCHECK_TESTS_APART" not in os.environ and works():
        os.execvp(APART[0], [*APART, sys.executable, "-m", "pytest", *arguments])


def workers(number: int) -> list[str]:
    """Return what execnet is to start; one worker where two would meet in one namespace."""
    if not works():
        return ["popen"]
    return [f"popen//python={shlex.join([*WITH_PARENT, *APART, sys.executable])}"] * number
