"""A test run that is killed leaves no simulated machine behind; two workers never meet."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path

import pytest

from tests import apart
from tests.lab.lab import wait_until
from tests.lab.namespaces import REPOSITORY

pytestmark = pytest.mark.usefixtures("namespaces")

BEGIN_S, END_S = 90.0, 10.0
PYTEST = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/lab/test_cleanup.py"]
ASK = """
import os
from hwcheck.node import load_lock
from tests.lab.network import Slot
with load_lock.held():
    print(os.getpid() < 10, Slot.take().number, os.listdir("/run/netns"), flush=True)
    input()
"""


def processes(mark: str) -> dict[int, str]:
    """Return the names of processes that have the mark in their environment."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "comm").read_text().strip()
        except OSError:
            continue  # it has just ended
    return found


@pytest.mark.parametrize("workers", [[], ["-n", "1"]])
def test_kill_9_of_pytest_ends_its_simulated_hosts(workers: list[str], tmp_path: Path) -> None:
    mark = str(uuid.uuid4())
    before = Path("/proc/self/mountinfo").read_text()
    environment = {**os.environ, "MARK": mark}
    environment.pop("HWCHECK_TESTS_APART", None)
    with subprocess.Popen(
        [*PYTEST, *workers, "--basetemp", str(tmp_path / "inner")],
        cwd=REPOSITORY,
        env=environment,
        stdout=subprocess.DEVNULL,
    ) as run:
        wait_until(lambda: "sshd" in processes(mark).values(), BEGIN_S)
        run.send_signal(signal.SIGKILL)
    wait_until(lambda: not processes(mark), END_S)
    assert Path("/proc/self/mountinfo").read_text() == before


def test_two_workers_have_locks_slots_and_names_of_their_own() -> None:
    command = [*apart.APART, sys.executable, "-c", ASK]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (
        subprocess.Popen(command, cwd=REPOSITORY, **pipes) as one,  # type: ignore[call-overload]
        subprocess.Popen(command, cwd=REPOSITORY, **pipes) as other,  # type: ignore[call-overload]
    ):
        assert one.stdout.readline() == other.stdout.readline() == "True 0 []\n"
        assert (one.communicate("\n"), other.communicate("\n")) == (("", None), ("", None))
    assert (one.returncode, other.returncode) == (0, 0)


def test_without_namespaces_one_worker_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(apart.workers(2)) == 2
    monkeypatch.setattr(apart, "APART", ("false",))
    assert apart.workers(2) == ["popen"]
