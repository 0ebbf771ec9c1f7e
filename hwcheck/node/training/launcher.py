"""The launcher of a session of training: imports torch once and forks the ranks of every launch.

Started by ``multi_host.order_server``, as ``multi_host.launcher`` is.
"""

from __future__ import annotations

import gc
from importlib import import_module

from hwcheck.node.multi_host.launcher import begin

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
    session = begin()
    if session is None:
        return
    import_slow()
    from hwcheck.node.multi_host import serve as stores
    from hwcheck.node.torch_runtime import version
    from hwcheck.node.training import serve

    gc.freeze()  # a collection in a rank would go through all of torch, and copy its pages
    facts, setup = {"torch": version()}, session.setup
    with stores.store_of(setup["address"], session.send, [session.out], facts) as close_fds:
        if close_fds:
            serve.serve(setup, session.orders, session.send, close_fds)


def import_slow() -> None:
    """Import ``SLOW``, as far as this torch has it."""
    for name in SLOW:
        try:
            import_module(name)
        except ImportError:  # an older torch: its strategies say so
            continue
