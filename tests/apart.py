"""The workers of pytest-xdist, each in namespaces of its own.

Network namespace: a worker's bridges, addresses and abstract sockets (the load lock, the slots of
the lab) are its own. PID and mount namespace: its simulated machines end with it, and it ends with
the pytest that started it, also by SIGKILL.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

APART = (
    *("setpriv", "--pdeathsig", "KILL"),
    *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
    *("sh", str(Path(__file__).with_suffix(".sh"))),
)


def works() -> bool:
    """Whether this machine and user may make such namespaces."""
    if shutil.which("setpriv") is None:
        return False
    return subprocess.run([*APART, "true"], capture_output=True, check=False).returncode == 0


def specifications(workers: int) -> list[str]:
    """Return what execnet is to start; one worker where two would meet in one namespace."""
    if not works():
        return ["popen"]
    return [f"popen//python={shlex.join([*APART, sys.executable])}"] * workers
