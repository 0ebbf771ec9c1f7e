from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hwcheck.node import load_lock
from hwcheck.node.check import CouldNotMeasure

HOLDER = """
import subprocess, sys
from hwcheck.node import load_lock
load_lock.NAME = sys.argv[1]
with load_lock.held():
    child = subprocess.Popen(["sleep", "600"])
    print(child.pid, flush=True)
    sys.stdin.read()
    child.kill()
"""


@pytest.fixture
def name(own_load_lock: str) -> str:
    """The lock's name as a process can be told it."""
    return own_load_lock[1:]


@contextmanager
def holder(name: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Hold the lock in another process, which has a child of its own."""
    code = HOLDER.replace("sys.argv[1]", "'\\0' + sys.argv[1]")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code, name], **pipes) as process:  # type: ignore[call-overload]
        child = int(process.stdout.readline())
        try:
            yield process, child
        finally:
            process.kill()


def take() -> bool:
    with load_lock.held():
        return True


def test_one_at_a_time(name: str) -> None:
    with holder(name) as (process, _):
        with pytest.raises(load_lock.BusyError, match="another hwcheck is loading this node"):
            take()
        process.communicate(timeout=20)
        assert take()


def test_it_dies_with_its_holder_and_not_with_the_holders_children(name: str) -> None:
    with holder(name) as (process, child):
        try:
            process.kill()
            process.wait(20)
            os.kill(child, 0)  # the child lives on
            assert take()
        finally:
            os.kill(child, 9)


def test_it_is_free_again_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), load_lock.held():
        raise ZeroDivisionError
    assert take()


def test_a_kernel_that_grants_no_socket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_lock, "NAME", str(tmp_path / "missing" / "lock"))
    with pytest.raises(CouldNotMeasure, match="no load lock: No such file or directory"):
        take()
