"""What OpenSSH expands in the name of a file: ``~``, tokens such as ``%h``, and ``${VARIABLES}``.

Semantics: ssh_config(5), TOKENS and ENVIRONMENT VARIABLES; ``ssh -G`` shows what ssh itself makes.
"""

from __future__ import annotations

import hashlib
import os
import pwd
import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass

PART = re.compile(r"%(?P<token>.?)|\$\{(?P<variable>[^}]*)(?P<end>\}?)", re.DOTALL)


@dataclass(frozen=True)
class Connection:
    """What tokens tell of: ``address`` is the host as named, ``hostname`` what that leads to.

    ``alias`` is HostKeyAlias, ``jump`` the host name of the last hop; both may be empty.
    """

    address: str
    hostname: str
    port: int
    user: str
    alias: str = ""
    jump: str = ""

    def tokens(self) -> dict[str, str]:
        """Return what stands for each letter after ``%``. Raises ValueError without a local user.

        Behind a jump host there is no ``%C``: it differs between versions of OpenSSH.
        """
        here, host = socket.gethostname(), self.hostname.lower()
        known = {
            "%": "%",
            "d": os.path.expanduser("~"),
            "h": host,
            "i": str(os.getuid()),
            "j": self.jump,
            "k": self.alias.lower() or self.address,
            "L": here.partition(".")[0],
            "l": here,
            "n": self.address,
            "p": str(self.port),
            "r": self.user,
            "u": _local_user(),
        }
        if not self.jump:
            words = f"{here}{host}{self.port}{self.user}".encode()
            known["C"] = hashlib.sha1(words, usedforsecurity=False).hexdigest()
        return known


def expand(name: str, connection: Connection) -> str:
    """Return the name as ssh would use it. Raises ValueError for what cannot be expanded."""
    path = os.path.expanduser(name)
    if path == name and name.startswith("~"):
        raise ValueError(f"{name.partition('/')[0]} is no user here")
    tokens = connection.tokens() if "%" in path else {}
    return PART.sub(lambda match: _value(match, tokens), path)


def _value(match: re.Match[str], tokens: Mapping[str, str]) -> str:
    if match["token"] is not None:
        if match["token"] not in tokens:
            raise ValueError(f"{match[0]} cannot be expanded; write the path")
        return tokens[match["token"]]
    value = os.environ.get(match["variable"]) if match["end"] else None
    if value is None:
        raise ValueError(f"{match[0]} is no variable that is set; set it, or write the path")
    return value


def _local_user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        raise ValueError(f"uid {os.getuid()} has no user name; write the path") from None
