from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwcheck.connect import agent
from tests.connect.ssh_agent import running_agent
from tests.lab.lab import make_key


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SSH_AUTH_SOCK", str(tmp_path / "agent"))
    return tmp_path / "agent"


def test_the_keys_of_a_real_agent(path: Path, tmp_path: Path) -> None:
    with running_agent(path):
        assert agent.keys() == 0
        for name in ("one", "two"):
            key = make_key(tmp_path / name)
            subprocess.run(["ssh-add", "-q", key], check=True, timeout=20)
        assert agent.keys() == 2
    assert agent.keys() == 0, "it has ended"


def test_no_agent(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agent.keys() == 0
    monkeypatch.delenv("SSH_AUTH_SOCK")
    assert agent.keys() == 0


@pytest.fixture
def listener(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        yield listener


@pytest.mark.parametrize("answer", [b"", b"\0\0\0\5", b"\0\0\0\1\5" + b"\0\0\0\7" * 2])
def test_what_is_no_agent(listener: socket.socket, answer: bytes) -> None:
    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(100)
            connection.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert agent.keys() == 0
    thread.join(10)


def test_an_agent_that_hangs_is_not_waited_for(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent, "ANSWER_S", 0.1)
    assert agent.keys() == 0
