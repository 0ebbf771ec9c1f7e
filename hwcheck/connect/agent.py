"""The ssh agent: whether one answers, and with how many keys. paramiko waits for it without end."""

from __future__ import annotations

import os
import socket
import struct

ANSWER_S = 2.0
# draft-ietf-sshm-ssh-agent, section 3.2: a length, then SSH_AGENTC_REQUEST_IDENTITIES; the answer
# is a length, SSH_AGENT_IDENTITIES_ANSWER and the number of keys, which follow.
REQUEST_IDENTITIES = struct.pack(">IB", 1, 11)
IDENTITIES_ANSWER = 12


def keys() -> int:
    """Return how many keys the agent at SSH_AUTH_SOCK holds; 0 where none answers within 2 s."""
    path = os.environ.get("SSH_AUTH_SOCK")
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
