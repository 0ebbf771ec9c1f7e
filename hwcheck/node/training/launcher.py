"""The launcher of a session of training: imports torch once and forks the ranks of every launch.

Started by ``multi_host.order_server``, as ``multi_host.launcher`` is.
"""

from __future__ import annotations

import os
from importlib import import_module

from hwcheck.node import json_lines, parent_death, torch_process

SLOW = (
    "torch._dynamo",
    "torch.distributed.fsdp",
    "torch.distributed.optim",
    "torch.distributed.pipelining",
    "torch.distributed.tensor.parallel",
)
"""What optimizers and strategies import when they are first used: seconds, which ranks inherit."""


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
    import_slow()
    from hwcheck.node.multi_host import serve as stores
    from hwcheck.node.torch_runtime import version
    from hwcheck.node.training import serve

    with stores.store_of(setup["address"], send, [out], {"torch": version()}) as close_fds:
        if close_fds:
            serve.serve(setup, iter(payload.next, None), send, close_fds)


def import_slow() -> None:
    """Import ``SLOW``, as far as this torch has it."""
    for name in SLOW:
        try:
            import_module(name)
        except ImportError:  # an older torch: its strategies say so
            continue


def _lack(gpus: int) -> str:
    from hwcheck.node.collective import runtime

    return runtime.missing_cuda() if gpus else ""
