"""The launcher of a session: imports torch once, keeps a store, forks the ranks of every order.

Started by ``member`` as ``python -c <boot> <payload>``. The first message on stdin says what the
node is, every further one is an order; answers leave on stdout.
"""

from __future__ import annotations

import gc
import os
from typing import Iterator, NamedTuple, Optional

from hwcheck.node import json_lines, parent_death, torch_process
from hwcheck.node.json_lines import Message, Send


class Session(NamedTuple):
    """What the payload says of the node, its orders, and where answers leave: ``out`` is its fd."""

    setup: Message
    orders: Iterator[Message]
    send: Send
    out: int


def main() -> None:
    """Serve one session."""
    session = begin()
    if session is not None:
        from hwcheck.node.multi_host import serve

        gc.freeze()  # a collection in a rank would go through all of torch, and copy its pages
        serve.serve(session.setup, session.orders, session.send, [session.out])


def begin() -> Optional[Session]:
    """Import torch and begin a session; None where torch cannot measure here, which is sent."""
    parent_death.die_with(os.getppid())  # the payload, or a wrapper that it started
    send, out = torch_process.sender()
    payload = json_lines.Reader(0)
    setup = payload.next() or {}
    problem = torch_process.torch_problem(lambda: _lack(setup["gpus"]))
    if problem:
        send({"reason": problem})
        return None
    return Session(setup, iter(payload.next, None), send, out)


def _lack(gpus: int) -> str:
    from hwcheck.node.collective import runtime

    return runtime.missing_cuda() if gpus else ""
