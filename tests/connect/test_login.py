from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from hwcheck.connect import login as module
from hwcheck.connect.login import Agent, Login, LoginKeys, has_keys
from hwcheck.errors import UsageError
from tests.connect.ssh_agent import running_agent
from tests.lab.lab import make_key


def login(
    named: Sequence[Path | str] = (),
    configured: Sequence[Path | str] = (),
    agent: Path | str = "",
    *,
    keys: LoginKeys | None = None,
    only: bool = False,
) -> Login:
    return (keys or LoginKeys()).login(
        map(str, named), map(str, configured), agent_socket=str(agent), identities_only=only
    )


def locked(path: Path) -> Path:
    key = make_key(path)
    command = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(key)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return key


def test_a_named_key_is_loaded_once_and_is_the_only_one_tried(tmp_path: Path) -> None:
    keys, key, other = LoginKeys(), make_key(tmp_path / "key"), make_key(tmp_path / "other")
    first = login([key], [other], keys=keys)
    key.unlink()
    second = login([key], keys=keys)
    assert first.arguments["pkey"] is second.arguments["pkey"]
    assert first.arguments["key_filename"] == []
    assert first.arguments["allow_agent"] is False
    assert first.arguments["look_for_keys"] is False
    assert first.text == f"key {key}"


def test_more_named_keys_are_tried_after_the_first_where_they_can_be_used(tmp_path: Path) -> None:
    first, second = make_key(tmp_path / "first"), make_key(tmp_path / "second")
    chosen = login([first, second, tmp_path / "none"])
    assert chosen.arguments["key_filename"] == [str(second)]
    assert chosen.text == f"key {first} or {second}"


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519", "pem"])
def test_kinds_of_keys(tmp_path: Path, kind: str) -> None:
    options = ["-t", "rsa", "-m", "PEM"] if kind == "pem" else ["-t", kind]
    path = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", *options, "-N", "", "-f", str(path)], check=True)
    assert login([path]).arguments["pkey"]


def test_a_locked_key_without_an_agent(tmp_path: Path) -> None:
    key = locked(tmp_path / "key")
    with pytest.raises(UsageError, match="no ssh agent with a key answers: start one"):
        login([key])
    with pytest.raises(UsageError, match="no ssh agent with a key answers at /nobody: start one"):
        login([key], agent="/nobody")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Path]:
    """The socket of an agent that holds one key."""
    path = tmp_path / "agent"
    with running_agent(path):
        add(path, make_key(tmp_path / "held"))
        yield path


def add(agent: Path, key: Path) -> None:
    environment = {"SSH_AUTH_SOCK": str(agent)}
    subprocess.run(["ssh-add", "-q", key], check=True, timeout=20, env=environment)


def test_a_locked_key_is_the_agents_business(tmp_path: Path, agent: Path) -> None:
    chosen = login([locked(tmp_path / "key")], agent=agent)
    assert (chosen.arguments["pkey"], chosen.arguments["allow_agent"]) == (None, True)
    assert (chosen.text, chosen.agent_socket) == ("the agent's keys", str(agent))


def test_the_agents_keys_are_tried_after_the_configured_ones(tmp_path: Path, agent: Path) -> None:
    chosen = login(agent=agent)
    assert (chosen.text, chosen.agent_socket) == ("the agent's keys", str(agent))
    key = make_key(tmp_path / "key")
    assert login([], [key], agent).text == f"{key} or the agent's keys"
    assert login([], [key], agent, only=True).text == str(key)
    assert login(agent=agent, only=True).agent_socket == ""


def test_no_agent_is_spoken_of_where_none_answers() -> None:
    chosen = login(agent="/no/such/agent")
    assert (chosen.text, chosen.arguments["allow_agent"]) == ("no key", False)


def test_what_is_no_key(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("-----BEGIN NOTHING-----\n")
    with pytest.raises(UsageError, match=f"not a private key: {tmp_path}/key"):
        login([tmp_path / "key"])
    with pytest.raises(UsageError, match=f"cannot read private key {tmp_path}: Is a directory"):
        login([tmp_path])


def test_a_public_key_is_called_one(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    with pytest.raises(UsageError, match=r"key\.pub: it is a public key; name the file without"):
        login([tmp_path / "key.pub"])


def test_configured_keys_are_those_that_work(tmp_path: Path) -> None:
    key, other = make_key(tmp_path / "key"), make_key(tmp_path / "other")
    chosen = login([], ["/no/such/key", locked(tmp_path / "locked"), key, other])
    assert chosen.text == f"{key} or {other}"
    assert (chosen.arguments["pkey"], chosen.arguments["key_filename"]) != (None, [])
    assert login([], ["/no/such/key"]).arguments["pkey"] is None


def test_the_keys_of_a_real_agent(tmp_path: Path) -> None:
    path = tmp_path / "agent"
    with running_agent(path):
        assert not has_keys(str(path)), "an agent without a key adds none"
        keys = [make_key(tmp_path / name) for name in ("one", "two")]
        for key in keys:
            add(path, key)
        assert has_keys(str(path))
        agent = Agent(str(path))
        held = [key.get_base64() for key in agent.get_keys()]
        assert held == [key.with_suffix(".pub").read_text().split()[1] for key in keys]
        agent.close()
    assert not has_keys(str(path)), "it has ended"
    assert not has_keys("")


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
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
    assert not has_keys(listener.getsockname())
    thread.join(10)


def test_an_agent_that_hangs_is_not_waited_for(
    listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "AGENT_ANSWER_S", 0.1)
    assert not has_keys(listener.getsockname())
