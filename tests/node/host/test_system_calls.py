from __future__ import annotations

import ctypes
import resource
import subprocess
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.host import system_calls

STATUS_OFFSET = 40
"""Of struct timex on 64-bit Linux: an int with padding and four longs come before."""


def library(status: int, state: int) -> Callable[..., Any]:
    def adjtimex(buffer: Any) -> int:
        address = ctypes.addressof(buffer._obj)
        assert ctypes.c_uint.from_address(address).value == 0, "must only read"
        ctypes.c_int.from_address(address + STATUS_OFFSET).value = status
        return state

    return lambda *args, **kwargs: SimpleNamespace(adjtimex=adjtimex)


@pytest.mark.parametrize(
    ("status", "state", "synchronized"),
    [(0x2001, 0, True), (0x2041, 5, False), (0x0040, 0, False), (0x0001, 5, False)],
)
def test_what_the_kernel_says_of_its_clock(
    monkeypatch: pytest.MonkeyPatch, status: int, state: int, synchronized: bool
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", library(status, state))
    assert system_calls.clock_synchronized() is synchronized


def test_a_refused_call_is_no_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", library(0, -1))
    monkeypatch.setattr(ctypes, "get_errno", lambda: 1)
    with pytest.raises(CouldNotMeasure, match="adjtimex: Operation not permitted"):
        system_calls.clock_synchronized()


def test_a_library_without_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *args, **kwargs: SimpleNamespace())
    with pytest.raises(CouldNotMeasure, match="no adjtimex"):
        system_calls.clock_synchronized()


def test_a_python_without_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ctypes", None)
    with pytest.raises(CouldNotMeasure, match="no ctypes"):
        system_calls.clock_synchronized()


def test_this_machine_answers() -> None:
    assert system_calls.clock_synchronized() in (True, False)


def test_a_lowered_limit_is_seen() -> None:
    code = (
        "import resource\n"
        "_, hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)\n"
        "resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, hard))\n"
        "from hwcheck.node.host.system_calls import locked_memory_limit_bytes\n"
        "print(locked_memory_limit_bytes())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "65536\n"


def test_no_limit_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda which: unlimited)
    assert system_calls.locked_memory_limit_bytes() is None


def test_a_path_that_is_not_there() -> None:
    with pytest.raises(CouldNotMeasure, match="/no/such: No such file"):
        system_calls.filesystem("/no/such")
