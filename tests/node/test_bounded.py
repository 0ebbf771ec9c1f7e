from __future__ import annotations

import threading
import time

import pytest

from hwcheck.node.bounded import Bounded
from hwcheck.node.check import CouldNotMeasure


def test_values_and_errors_come_back() -> None:
    bounded = Bounded("the library", 10)
    assert bounded.call(divmod, 7, 2) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        bounded.call(divmod, 7, 0)
    assert bounded.call(divmod, 9, 2) == (4, 1)
    assert bounded.hung == ""


def test_calls_run_in_one_thread_of_their_own() -> None:
    bounded = Bounded("the library", 10)
    first, second = bounded.call(threading.get_ident), bounded.call(threading.get_ident)
    assert first == second != threading.get_ident()


def test_after_a_hang_nothing_is_called_again() -> None:
    bounded = Bounded("the library", 0.05)
    release = threading.Event()
    called: list[str] = []
    try:
        with pytest.raises(CouldNotMeasure, match=r"the library did not answer within 0\.05 s"):
            bounded.call(release.wait)
        started = time.monotonic()
        with pytest.raises(CouldNotMeasure, match="did not answer"):
            bounded.call(called.append, "again")
        assert time.monotonic() - started < 0.05
    finally:
        release.set()
    assert called == []
