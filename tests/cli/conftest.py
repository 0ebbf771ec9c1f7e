from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _as_at_a_terminal() -> Iterator[None]:
    """Who starts the tests in the background or by nohup has some of the signals ignored."""
    plain = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    plain[signal.SIGHUP] = signal.SIG_DFL
    before = {number: signal.signal(number, handler) for number, handler in plain.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
