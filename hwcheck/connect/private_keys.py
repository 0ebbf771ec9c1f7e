"""Private keys: each file is read once and its key is shared by all connections."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import paramiko
from cryptography.exceptions import UnsupportedAlgorithm
from paramiko import SSHException

from hwcheck.connect import agent
from hwcheck.errors import UsageError

# OpenSSH's defaults, those that paramiko can use, cheapest first.
DEFAULT_FILES = ("~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa")
PUBLIC_TYPES = (b"ssh-", b"ecdsa-", b"sk-")
"""How a public key begins."""


class LockedKeyError(Exception):
    """The key is protected by a passphrase."""


# RuntimeError: expanduser knows no such user.
UNUSABLE = (OSError, RuntimeError, ValueError, LockedKeyError, UnsupportedAlgorithm, SSHException)


@dataclass(frozen=True)
class Login:
    """How to authenticate: ``arguments`` for paramiko's connect, ``text`` for error messages."""

    arguments: dict[str, Any]
    text: str


class PrivateKeys:
    """Reads key files, each once. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[Path, paramiko.PKey] = {}
        self._agent_keys: int | None = None

    def login(
        self, named: Iterable[str], configured: Iterable[str], *, identities_only: bool
    ) -> Login:
        """Choose keys: ``named`` by the inventory, or ``configured`` by ssh, or ssh's defaults.

        Raises UsageError when the first named key cannot be used. Others, keys of the configuration
        and default keys that cannot be used are left out, as ssh does.
        """
        names = list(dict.fromkeys(named))
        if names:
            return self._named(names)
        files = list(configured)
        keys = [key for key in map(self._usable, files or DEFAULT_FILES) if key is not None]
        rest = [str(path) for path, _ in keys[1:]]
        ask_agent = not identities_only and self._agent_has_keys()
        arguments = {
            "pkey": keys[0][1] if keys else None,
            "key_filename": rest,
            "allow_agent": ask_agent,
            "look_for_keys": False,
        }
        paths = [str(path) for path, _ in keys] + (["the agent's keys"] if ask_agent else [])
        return Login(arguments, " or ".join(paths) or "no key")

    def _named(self, names: list[str]) -> Login:
        key = None
        more = [str(found[0]) for found in map(self._usable, names[1:]) if found is not None]
        locked = False
        try:
            key = self._load(Path(names[0]).expanduser())
        except LockedKeyError:
            if not self._agent_has_keys():
                raise UsageError(
                    f"private key {names[0]}: protected by a passphrase, and no ssh agent with a "
                    "key answers: start one and ssh-add the key"
                ) from None
            locked = True
        except OSError as error:
            raise UsageError(f"cannot read private key {names[0]}: {error.strerror}") from None
        except RuntimeError:  # of expanduser
            who = names[0].partition("/")[0]
            raise UsageError(f"cannot read private key {names[0]}: {who} is no user here") from None
        except (ValueError, UnsupportedAlgorithm, SSHException) as error:
            raise UsageError(f"not a private key: {names[0]}: {_why(names[0], error)}") from None
        arguments = {"pkey": key, "key_filename": more, "allow_agent": locked}
        text = "the agent's keys" if locked else f"key {names[0]}"
        return Login({**arguments, "look_for_keys": False}, " or ".join([text, *more]))

    def _agent_has_keys(self) -> bool:
        with self._lock:
            if self._agent_keys is None:
                self._agent_keys = agent.keys()
            return self._agent_keys > 0

    def _usable(self, name: str) -> tuple[Path, paramiko.PKey] | None:
        try:
            path = Path(name).expanduser()
            return path, self._load(path)
        except UNUSABLE:
            return None  # as ssh: the agent or the next key may do

    def _load(self, path: Path) -> paramiko.PKey:
        with self._lock:
            if path not in self._keys:
                self._keys[path] = _read(path)
            return self._keys[path]


def _why(name: str, error: Exception) -> str:
    """Say what a file is that is no private key; cryptography names web pages and parsers."""
    with Path(name).expanduser().open("rb") as stream:
        is_public = stream.read(16).startswith(PUBLIC_TYPES)
    if is_public:
        return "it is a public key; name the file without .pub"
    return str(error).partition(". ")[0]


def _read(path: Path) -> paramiko.PKey:
    try:
        return paramiko.PKey.from_path(path)
    except (TypeError, paramiko.PasswordRequiredException) as error:
        # cryptography says with a TypeError that a password is missing.
        raise LockedKeyError(str(error)) from None
