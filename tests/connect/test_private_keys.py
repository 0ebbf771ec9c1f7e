from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hwcheck.connect.private_keys import PrivateKeys
from hwcheck.errors import UsageError
from tests.connect.ssh_agent import running_agent
from tests.lab.lab import make_key


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    (tmp_path / ".ssh").mkdir()
    return tmp_path


def locked(path: Path) -> Path:
    key = make_key(path)
    command = ["ssh-keygen", "-q", "-p", "-P", "", "-N", "secret", "-f", str(key)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return key


def test_a_named_key_is_loaded_once_and_is_the_only_one_tried(home: Path) -> None:
    keys, key = PrivateKeys(), make_key(home / "key")
    first = keys.login([str(key)], [], identities_only=False)
    key.unlink()
    again = keys.login([str(key)], [], identities_only=False)
    assert first.arguments["pkey"] is again.arguments["pkey"]
    assert first.arguments["allow_agent"] is False
    assert first.arguments["look_for_keys"] is False
    assert first.text == f"key {key}"


def test_more_named_keys_are_tried_after_the_first_where_they_can_be_used(home: Path) -> None:
    make_key(home / "first")
    make_key(home / "second")
    names = [str(home / "first"), "~/second", "~/none"]
    login = PrivateKeys().login(names, [], identities_only=False)
    assert login.arguments["key_filename"] == [str(home / "second")]
    assert login.text == f"key {home}/first or {home}/second"


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "ed25519", "pem"])
def test_kinds_of_keys(home: Path, kind: str) -> None:
    options = ["-t", "rsa", "-m", "PEM"] if kind == "pem" else ["-t", kind]
    path = home / "key"
    subprocess.run(["ssh-keygen", "-q", *options, "-N", "", "-f", str(path)], check=True)
    assert PrivateKeys().login([str(path)], [], identities_only=False).arguments["pkey"]


def test_a_locked_key_without_an_agent(home: Path) -> None:
    key = locked(home / "key")
    with pytest.raises(UsageError, match="by a passphrase, and no ssh agent with a key answers"):
        PrivateKeys().login([str(key)], [], identities_only=False)


@pytest.fixture
def agent(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An agent that holds one key."""
    monkeypatch.setenv("SSH_AUTH_SOCK", str(home / "agent"))
    with running_agent(home / "agent"):
        key = make_key(home / "held")
        subprocess.run(["ssh-add", "-q", key], check=True, timeout=20)
        yield


@pytest.mark.usefixtures("agent")
def test_a_locked_key_is_the_agents_business(home: Path) -> None:
    login = PrivateKeys().login([str(locked(home / "key"))], [], identities_only=False)
    assert (login.arguments["pkey"], login.arguments["allow_agent"]) == (None, True)
    assert login.text == "the agent's keys"


@pytest.mark.usefixtures("agent")
def test_the_agents_keys_are_tried_where_there_is_an_agent() -> None:
    login = PrivateKeys().login([], [], identities_only=False)
    assert (login.text, login.arguments["allow_agent"]) == ("the agent's keys", True)
    assert PrivateKeys().login([], [], identities_only=True).text == "no key"


def test_no_agent_is_spoken_of_where_none_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSH_AUTH_SOCK", "/no/such/agent")
    login = PrivateKeys().login([], [], identities_only=False)
    assert (login.text, login.arguments["allow_agent"]) == ("no key", False)


def test_what_is_no_key(home: Path) -> None:
    (home / "key").write_text("-----BEGIN NOTHING-----\n")
    with pytest.raises(UsageError, match=f"not a private key: {home}/key"):
        PrivateKeys().login([str(home / "key")], [], identities_only=False)
    with pytest.raises(UsageError, match=f"cannot read private key {home}: Is a directory"):
        PrivateKeys().login([str(home)], [], identities_only=False)


def test_a_public_key_is_called_one(home: Path) -> None:
    make_key(home / "key")
    with pytest.raises(UsageError, match=r"key\.pub: it is a public key; name the file without"):
        PrivateKeys().login([str(home / "key.pub")], [], identities_only=False)


def test_a_home_of_nobody(home: Path) -> None:
    nobody = "~no_such_user/key"
    with pytest.raises(UsageError, match=f"cannot read private key {nobody}: ~no_such_user is no"):
        PrivateKeys().login([nobody], [], identities_only=False)
    key = str(make_key(home / "key"))
    assert PrivateKeys().login([key, nobody], [], identities_only=False).text == f"key {key}"
    assert PrivateKeys().login([], [nobody], identities_only=True).text == "no key"


def test_default_keys_are_those_that_work(home: Path) -> None:
    locked(home / ".ssh" / "id_ed25519")
    key = make_key(home / ".ssh" / "id_rsa")
    login = PrivateKeys().login([], ["/no/such/key"], identities_only=True)
    assert (login.text, login.arguments["pkey"]) == ("no key", None)
    login = PrivateKeys().login([], [], identities_only=True)
    assert (login.text, login.arguments["key_filename"]) == (str(key), [])
