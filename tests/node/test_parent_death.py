from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.node.processes import alive, gone

ROOT = str(Path(__file__).parents[2])

# A parent with a child in a session of its own, so that no signal to the group reaches it.
PARENT = """
import os, signal, sys
from hwcheck.node.parent_death import die_with
parent = os.getpid()
pid = os.fork()
if pid == 0:
    os.setsid()
    if sys.argv[1] == "tied":
        die_with(parent)
    print(os.getpid(), flush=True)
signal.pause()
"""


def _start(kind: str) -> tuple[subprocess.Popen[str], int]:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, kind],
        env={**os.environ, "PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def test_a_child_that_is_tied_dies_with_its_parent() -> None:
    parent, child = _start("tied")
    with parent:
        assert alive(child)
        parent.kill()
    assert gone(child)


def test_a_child_that_is_not_tied_outlives_it() -> None:
    """Negative control: without the tie the child stays."""
    parent, child = _start("free")
    try:
        with parent:
            parent.kill()
            # The pipe's other end is the child's too: only the parent's end is waited for.
            parent.wait()
            assert alive(child)
            os.kill(child, signal.SIGKILL)
    finally:
        assert gone(child)


def test_a_parent_that_is_gone_already_ends_the_child_at_once() -> None:
    code = "import sys; from hwcheck.node.parent_death import die_with; die_with(0); sys.exit(9)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": ROOT}, timeout=60
    )
    assert done.returncode == 1
