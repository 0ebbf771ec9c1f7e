"""Where the ranks of every order that this host is the first of meet: one process, one store."""

from __future__ import annotations

import os
import socket
import threading
from datetime import timedelta
from typing import Any, Callable, Dict

from hwcheck.node.collective.runtime import dist


def keep(listener: socket.socket, say: Callable[[Dict[str, Any]], None]) -> None:
    """Serve torch's TCPStore on a bound socket until this process is ended.

    A process of its own: ranks that are stopped or killed do not take the store with them.
    """
    host, port = listener.getsockname()
    # libuv, torch's default since 2.4, takes no socket of ours up to 2.7; torch 2.0 has no choice.
    # Its clients do not care which of the two serves them.
    choice = {"use_libuv": False} if "use_libuv" in (dist.TCPStore.__init__.__doc__ or "") else {}
    store = dist.TCPStore(
        host,
        port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=os.dup(listener.fileno()),
        **choice,
    )
    listener.close()
    say({"kind": "open"})
    threading.Event().wait()
    del store


def connect(host: str, port: int, name: str, timeout_s: float) -> Any:
    """Return the part ``name`` of a store, for one order."""
    timeout = timedelta(seconds=timeout_s)
    return dist.PrefixStore(name, dist.TCPStore(host, port, is_master=False, timeout=timeout))


def together(store: Any, what: str, world: int, amount: int = 0) -> int:
    """Wait until all ranks are here; return the sum of what they bring."""
    store.add(what, amount)
    if store.add(what + "/told", 1) == world:
        store.set(what + "/sum", str(store.add(what, 0)))
    return int(store.get(what + "/sum"))
