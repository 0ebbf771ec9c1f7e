"""What to log in with: private keys, each file read once for all hosts, and the ssh agent."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko import SSHException
from paramiko.agent import AgentSSH

from hwcheck.errors import UsageError

AGENT_ANSWER_S = 2.0
PUBLIC_TYPES = (b"ssh-", b"ecdsa-", b"sk-")
"""How a public key begins."""


class LockedKeyError(Exception):
    """The key is protected by a passphrase."""


UNUSABLE = (OSError, ValueError, LockedKeyError, UnsupportedAlgorithm, SSHException)


class Agent(AgentSSH):
    """The ssh agent at a socket, asked when its keys are wanted.

    paramiko's own knows the one at SSH_AUTH_SOCK alone, and waits without end for one that hangs.
    """

    _conn: socket.socket | None

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path

    def get_keys(self) -> tuple[paramiko.AgentKey, ...]:
        """Return its keys. Raises OSError and SSHException when none are told within 2 s."""
        if self._conn is None:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(AGENT_ANSWER_S)
            try:
                connection.connect(self._path)
                self._connect(connection)  # type: ignore[attr-defined]
            except BaseException:
                connection.close()
                self._conn = None
                raise
            connection.settimeout(None)  # a person may be asked about a signature
        return super().get_keys()

    def close(self) -> None:
        """Close the connection."""
        self._close()  # type: ignore[attr-defined]


@dataclass(frozen=True)
class Login:
    """How to authenticate: ``arguments`` for paramiko's connect, ``text`` for error messages.

    ``agent_socket`` is empty where no agent's keys are tried.
    """

    arguments: dict[str, Any]
    agent_socket: str
    text: str


class LoginKeys:
    """Reads key files and asks agents, each once. For one thread."""

    def __init__(self) -> None:
        self._keys: dict[str, paramiko.PKey] = {}
        self._agents: dict[str, bool] = {}

    def login(
        self,
        named: Iterable[str],
        configured: Iterable[str],
        *,
        agent_socket: str,
        identities_only: bool,
    ) -> Login:
        """Choose keys: in files that the inventory has ``named``, or ``configured`` and an agent's.

        Raises UsageError when the first named key cannot be used. Other keys that cannot be used
        are left out, as ssh does.
        """
        names = list(named)
        if names:
            return self._named(names, agent_socket)
        usable = [name for name in configured if self._is_usable(name)]
        ask_agent = not identities_only and self._has_keys(agent_socket)
        key = self._keys[usable[0]] if usable else None
        texts = [*usable, "the agent's keys"] if ask_agent else usable
        return _login(key, usable[1:], agent_socket if ask_agent else "", texts or ["no key"])

    def _named(self, names: list[str], agent_socket: str) -> Login:
        first, *others = names
        others = [name for name in others if self._is_usable(name)]
        try:
            return _login(self._load(first), others, "", [f"key {first}", *others])
        except LockedKeyError:
            if not self._has_keys(agent_socket):
                where = f" at {agent_socket}" if agent_socket else ""
                raise UsageError(
                    f"private key {first}: protected by a passphrase, and no ssh agent with a key "
                    f"answers{where}: start one and ssh-add the key"
                ) from None
            return _login(None, others, agent_socket, ["the agent's keys", *others])
        except OSError as error:
            raise UsageError(f"cannot read private key {first}: {error.strerror}") from None
        except (ValueError, UnsupportedAlgorithm, SSHException) as error:
            raise UsageError(f"not a private key: {first}: {_why(first, error)}") from None

    def _has_keys(self, agent_socket: str) -> bool:
        if agent_socket not in self._agents:
            self._agents[agent_socket] = has_keys(agent_socket)
        return self._agents[agent_socket]

    def _is_usable(self, name: str) -> bool:
        try:
            self._load(name)
        except UNUSABLE:
            return False  # as with ssh: the agent or the next key may do
        return True

    def _load(self, name: str) -> paramiko.PKey:
        if name not in self._keys:
            try:
                self._keys[name] = paramiko.PKey.from_path(name)
            except (TypeError, paramiko.PasswordRequiredException) as error:
                # cryptography says with a TypeError that a password is missing.
                raise LockedKeyError(str(error)) from None
        return self._keys[name]


def has_keys(agent_socket: str) -> bool:
    """Whether an agent answers at a socket within 2 s, and holds a key."""
    if not agent_socket:
        return False
    agent = Agent(agent_socket)
    try:
        return bool(agent.get_keys())
    except (OSError, struct.error, SSHException):
        return False  # nobody there, or no agent: as with ssh, its keys are none
    finally:
        agent.close()


def _login(
    key: paramiko.PKey | None, files: Sequence[str], agent_socket: str, texts: Sequence[str]
) -> Login:
    arguments = {
        "pkey": key,
        "key_filename": list(files),
        "allow_agent": bool(agent_socket),
        "look_for_keys": False,
    }
    return Login(arguments, agent_socket, " or ".join(texts))


def _why(name: str, error: Exception) -> str:
    """Say what a file is that is no private key; cryptography names web pages and parsers."""
    with open(name, "rb") as stream:
        is_public = stream.read(16).startswith(PUBLIC_TYPES)
    if is_public:
        return "it is a public key; name the file without .pub"
    return str(error).partition(". ")[0]
