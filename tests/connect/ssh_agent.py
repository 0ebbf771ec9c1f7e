"""A real ssh-agent for the length of a block."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def running_agent(path: Path) -> Iterator[None]:
    """Run ssh-agent with its socket at ``path``."""
    command = ["ssh-agent", "-D", "-a", str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            assert "SSH_AUTH_SOCK" in process.stdout.readline(), "it listens once it has said so"
            yield
        finally:
            process.terminate()
