"""Conditions that are waited for, with a bound."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable


def listens(address: str, port: int = 22) -> bool:
    """Whether something accepts connections there."""
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True


def wait_until(condition: Callable[[], object], seconds: float) -> None:
    """Return when the condition holds. Raises AssertionError when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "the condition did not come true"
        time.sleep(0.02)
