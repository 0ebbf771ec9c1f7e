from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.reasons import AT_WORK
from hwcheck.node import load_lock

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


SQUATTER = """
import os, socket, sys
os.setuid(int(sys.argv[1]))
names = ["\\0" + name for name in sys.argv[3:]]
sockets = [socket.socket(socket.AF_UNIX) for _ in names]
for each, name in zip(sockets, names):
    each.bind(name)
    if sys.argv[2] == "listens":
        each.listen(0)
print("ready", flush=True)
sys.stdin.read()
"""
NOBODY = 65534


@contextmanager
def squatter(user: int, how: str, *names: str) -> Iterator[None]:
    """Hold names as another user does, who answers (listens) or not."""
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    words = [sys.executable, "-c", SQUATTER, str(user), how, *names]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "ready\n"
        try:
            yield
        finally:
            process.kill()


@pytest.mark.parametrize("how", ["listens", "is silent"])
def test_a_stranger_does_not_hold_it(name: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load_lock, "ANSWER_S", 0.1)
    with squatter(NOBODY, how, name), load_lock.held():
        for _ in range(3 * load_lock.PLACES):  # as many ask as they like
            with pytest.raises(load_lock.BusyError, match="another hwcheck"):
                take()
    assert take()


def test_strangers_who_hold_every_name_are_named(name: str) -> None:
    names = [name, *(f"{name}.{place}" for place in range(1, load_lock.PLACES))]
    refusal = r"strangers hold .*: process \d+ of user 65534,"
    with (
        squatter(NOBODY, "listens", *names),
        pytest.raises(CouldNotMeasure, match=refusal) as raised,
    ):
        take()
    assert raised.value.reason.code == AT_WORK
    assert take()


def test_it_is_held_on_when_a_stranger_leaves(name: str) -> None:
    with squatter(NOBODY, "listens", name):
        lock = load_lock.held()
        lock.__enter__()
    with pytest.raises(load_lock.BusyError, match="another hwcheck"):
        take()
    lock.__exit__(None, None, None)
    assert take()


def test_root_is_believed_by_everybody(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with squatter(0, "listens", name):
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
        with pytest.raises(load_lock.BusyError, match="another hwcheck"):
            take()
