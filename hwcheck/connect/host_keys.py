"""Host keys: what known_hosts files say, and the policy that holds a server to them.

paramiko's own reader compares every line with every other (a minute for a thousand hosts), keeps
one key of each type and knows no patterns; so the files are read here, once for all hosts.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import os
import re
import threading
from dataclasses import dataclass
from fnmatch import translate
from functools import cache
from pathlib import Path

import paramiko

from hwcheck.connect.deadlines import VisitError
from hwcheck.results.phases import HOST_KEY

REVOKED, AUTHORITY = "@revoked", "@cert-authority"
"""What may stand before a line (sshd(8), SSH_KNOWN_HOSTS FILE FORMAT)."""
NAME_WITH_PORT = re.compile(r"\[(.+)\]:\d+")


@dataclass(frozen=True)
class KnownKey:
    """One key of a known_hosts file; ``where`` is ``known_hosts:3``, ``mark`` often empty."""

    names: str
    key_type: str
    key: bytes
    where: str
    mark: str


class KnownHosts:
    """The known_hosts files of one host, user's files first. Safe to use from several threads."""

    def __init__(self, user_files: tuple[str, ...], global_files: tuple[str, ...] = ()) -> None:
        self._lock = threading.Lock()
        self._user_files = user_files
        self._plain: dict[str, list[KnownKey]] = {}
        self._others: list[KnownKey] = []
        for path in (*user_files, *global_files):
            self._read(Path(path))

    def lookup(self, name: str) -> list[KnownKey]:
        """Return the lines for a name as known_hosts spells it (``host`` or ``[host]:port``)."""
        with self._lock:
            lines = list(self._plain.get(name, ()))
            return lines + [line for line in self._others if _matches(line.names, name)]

    def append(self, name: str, key: paramiko.PKey) -> None:
        """Add a key at the end of the user's file, where there is one; it is never rewritten.

        Raises OSError when it cannot be written.
        """
        line = f"{name} {key.get_name()} {key.get_base64()}\n"
        with self._lock:
            where = "this run"
            if self._user_files:
                _append(Path(self._user_files[0]), line)
                where = f"{self._user_files[0]}:new"
            self._add(line, where)

    def _read(self, path: Path) -> None:
        try:
            text = path.read_text("utf-8", errors="replace")
        except (OSError, ValueError):  # as with ssh, a file that is not there knows no host
            return
        for number, line in enumerate(text.splitlines(), 1):
            self._add(line, f"{path}:{number}")

    def _add(self, text: str, where: str) -> None:
        words = text.split()
        if not words or words[0].startswith("#"):
            return
        mark = words.pop(0) if words[0].startswith("@") else ""
        if len(words) < 3 or mark not in ("", REVOKED, AUTHORITY):
            return
        try:
            key = base64.b64decode(words[2], validate=True)
        except ValueError:  # a damaged line knows no host
            return
        entry = KnownKey(words[0], words[1], key, where, mark)
        if re.search(r"[*?!|]", entry.names):
            self._others.append(entry)
        else:
            for name in entry.names.lower().split(","):  # as with ssh, case means nothing
                self._plain.setdefault(name, []).append(entry)


def _append(path: Path, line: str) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(fd, "r+b", buffering=0) as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)  # another hwcheck may be adding too
        stream.write((b"" if _ends_line(fd) else b"\n") + line.encode())


def _ends_line(fd: int) -> bool:
    size = os.fstat(fd).st_size
    return size == 0 or os.pread(fd, 1, size - 1) == b"\n"


def _matches(names: str, name: str) -> bool:
    if names.startswith("|1|"):
        return _hash_matches(names, name)
    matches = False
    for pattern in names.split(","):
        if _pattern(pattern.lstrip("!")).match(name):
            if pattern.startswith("!"):
                return False
            matches = True
    return matches


def _hash_matches(hashed: str, name: str) -> bool:
    try:
        salt, digest = (base64.b64decode(part) for part in hashed.split("|")[2:4])
    except ValueError:
        return False
    # HMAC-SHA1 is what OpenSSH hashes names with (sshd(8)); it hides names and proves nothing.
    return hmac.compare_digest(hmac.new(salt, name.encode(), hashlib.sha1).digest(), digest)


@cache
def _pattern(text: str) -> re.Pattern[str]:
    # ssh knows * and ? only: brackets stand for themselves ([host]:2222).
    return re.compile(translate(text.replace("[", "[[]")), re.IGNORECASE)


class HostKeyPolicy(paramiko.MissingHostKeyPolicy):
    """Refuses every key but one in a known_hosts file (or a new one on request).

    paramiko is given no keys to compare with, so it asks this policy about every server. It takes
    no certificates from servers: a host that only a @cert-authority line vouches for is refused.
    """

    def __init__(self, known_hosts: KnownHosts, name: str, *, accept_new: bool) -> None:
        self._known_hosts = known_hosts
        self._name = name
        self._accept_new = accept_new
        lines = known_hosts.lookup(name)
        self._trusted = [line for line in lines if not line.mark]
        port = NAME_WITH_PORT.fullmatch(name)
        if port:  # what is said of the host holds for each of its ports
            lines += known_hosts.lookup(port[1])
        self._revoked = [line for line in lines if line.mark == REVOKED]
        self._authorities = [line for line in lines if line.mark == AUTHORITY]

    def preferred_types(self, supported: tuple[str, ...]) -> tuple[str, ...]:
        """Order key types so that a server offers a key that can be compared."""
        types = {line.key_type for line in self._trusted}
        if "ssh-rsa" in types:
            types |= {"rsa-sha2-512", "rsa-sha2-256"}
        return tuple(sorted(supported, key=lambda name: name not in types))

    def missing_host_key(
        self,
        client: paramiko.SSHClient,  # noqa: ARG002 - paramiko's signature
        hostname: str,  # noqa: ARG002
        key: paramiko.PKey,
    ) -> None:
        """Return when the key is a trusted one, or a new one that may be accepted.

        Raises VisitError when it is unknown, changed or revoked.
        """
        offered = key.asbytes()
        for line in self._revoked:
            if line.key == offered:
                raise VisitError(HOST_KEY, f"revoked by {line.where}")
        if any(line.key == offered for line in self._trusted):
            return
        if self._trusted:
            raise VisitError(HOST_KEY, self._changed(key.get_name()))
        if self._authorities:
            raise VisitError(
                HOST_KEY,
                f"only vouched for by {AUTHORITY} in {self._authorities[0].where}, and hwcheck "
                f"verifies no host certificates: add the host's own {key.get_name()} key, as "
                f"{self._name}, to known_hosts",
            )
        if not self._accept_new:
            raise VisitError(
                HOST_KEY,
                f"unknown: no {key.get_name()} key of {self._name} in known_hosts: "
                "run ssh-keyscan or use --accept-new-host-keys",
            )
        try:
            self._known_hosts.append(self._name, key)
        except OSError as error:
            reason = f"new, but cannot be added to known_hosts: {error}"
            raise VisitError(HOST_KEY, reason) from None

    def _changed(self, offered_type: str) -> str:
        same_type = (line for line in self._trusted if line.key_type == offered_type)
        line = next(same_type, self._trusted[0])
        another = "another " if line.key_type == offered_type else ""
        return (
            f"changed: {line.where} has {another}{line.key_type} key of {self._name}; if the host "
            f"was reinstalled, remove that line, otherwise find out who answers in its place"
        )
