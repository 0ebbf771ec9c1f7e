"""Stands between hwcheck and ansible-playbook, so that nothing of Ansible's outlives hwcheck.

Ansible's workers, and the ssh that their connections share, have sessions of their own; a signal to
Ansible does not reach them. With their ssh a node's task loses its terminal, which ends it.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from hwcheck.node import descendants

START = (
    "import sys; sys.path[:] = [sys.argv[1], *filter(None, sys.path)]; "
    "from hwcheck.inventory.guard import main; main()"
)
ROOT = Path(__file__).parents[2]


class Lifeline:
    """A FIFO that the guard of a command watches: it is closed by whatever ends this process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd: int | None = None

    def __enter__(self) -> Lifeline:
        os.mkfifo(self._path, 0o600)
        self._fd = os.open(self._path, os.O_RDWR | os.O_CLOEXEC)
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()

    def cut(self) -> None:
        """End the command, with all that came from it."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def guarded(self, command: list[str]) -> list[str]:
        """Return a command that runs another one until the lifeline is cut."""
        return [sys.executable, "-c", START, str(ROOT), str(self._path), *command]


def main() -> None:
    """``sys.argv``: hwcheck's folder, the FIFO, the command; its exit code becomes this one's."""
    descendants.adopt()
    lifeline = os.open(sys.argv[2], os.O_RDONLY | os.O_NONBLOCK)
    ended, end = os.pipe()
    os.set_blocking(end, False)
    signal.set_wakeup_fd(end, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    # A terminal sends Ctrl-C to this process, too. hwcheck decides, and cuts the lifeline.
    signal.signal(signal.SIGINT, lambda *_: None)
    process = subprocess.Popen(sys.argv[3:])
    watch = select.poll()
    watch.register(lifeline, 0)  # POLLHUP comes unasked: nobody has it open any more
    watch.register(ended, select.POLLIN)
    while process.poll() is None and lifeline not in dict(watch.poll()):
        os.read(ended, 4096)
    descendants.kill_all()
    code = process.wait()
    sys.exit(code if code >= 0 else 128 - code)
