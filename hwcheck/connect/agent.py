"""The ssh agent: whether one answers, and with how many keys. paramiko waits for it without end."""

from __future__ import annotations

import os
import socket
import struct

from hwcheck.connect.tokens import Connection, expand

ANSWER_S = 2.0
# draft-ietf-sshm-ssh-agent, section 3.2: a length, then SSH_AGENTC_REQUEST_IDENTITIES; the answer
# is a length, SSH_AGENT_IDENTITIES_ANSWER and the number of keys, which follow.
REQUEST_IDENTITIES = struct.pack(">IB", 1, 11)
IDENTITIES_ANSWER = 12


def usual_socket() -> str:
    """Return SSH_AUTH_SOCK, the only socket that paramiko asks; empty where there is none."""
    return os.environ.get("SSH_AUTH_SOCK", "")


def named_socket(text: str, connection: Connection) -> str:
    """Return the socket that IdentityAgent ``text`` of ssh_config(5) stands for; empty for none.

    Raises ValueError for what cannot be expanded.
    """
    if text in ("", "SSH_AUTH_SOCK"):
        return usual_socket()
    if text.startswith("$") and not text.startswith("${"):
        return os.environ.get(text[1:], "")
    return "" if text == "none" else expand(text, connection)


def keys(path: str | None = None) -> int:
    """Return how many keys an agent holds; 0 where none answers within 2 s.

    ``path`` is that of its socket; without it, the one at SSH_AUTH_SOCK is asked.
    """
    path = usual_socket() if path is None else path
    if not path:
        return 0
    try:
        with socket.socket(socket.AF_UNIX) as agent:
            agent.settimeout(ANSWER_S)
            agent.connect(path)
            agent.sendall(REQUEST_IDENTITIES)
            with agent.makefile("rb") as answer:
                _, kind, count = struct.unpack(">IBI", answer.read(9))
    except (OSError, struct.error):
        return 0  # nobody there, or no agent: as with ssh, its keys are none
    return count if kind == IDENTITIES_ANSWER else 0
