"""The launcher of a session: imports torch once, keeps a store, forks the ranks of every order.

Started by ``member`` as ``python -c <boot> <payload>``. The first message on stdin says what the
node is, every further one is an order; answers leave on stdout.
"""

from __future__ import annotations

import os

from hwcheck.node import json_lines, parent_death, torch_process


def main() -> None:
    """Serve one session."""
    parent_death.die_with(os.getppid())  # the payload, or a wrapper that it started
    send, out = torch_process.sender()
    payload = json_lines.Reader(0)
    setup = payload.next() or {}
    problem = torch_process.torch_problem(lambda: _lack(setup["gpus"]))
    if problem:
        send({"reason": problem})
        return
    from hwcheck.node.multi_host import serve

    serve.serve(setup, iter(payload.next, None), send, [out])


def _lack(gpus: int) -> str:
    from hwcheck.node.collective import runtime

    return runtime.missing_cuda() if gpus else ""
