"""What is remembered of a GPU; the rest of nvml_reader.py is tested with the readers on it."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.nvml.reader import NvmlReader
from hwcheck.node.threads import side_by_side

T = TypeVar("T")


class Library:
    """NVML that counts how often it is asked, and fails as often as it is told to."""

    def __init__(self, failures: int = 0) -> None:
        self.asked, self.failures = 0, failures
        self.release = threading.Event()

    def ask(self, names: Sequence[str], *args: Any) -> Any:
        self.asked += 1
        assert self.release.wait(10)
        if self.asked <= self.failures:
            raise CouldNotMeasure("Unknown Error")
        return self.asked

    def constant(self, name: str) -> Any:
        raise AssertionError(name)

    def together(self, work: Callable[[], T]) -> T:
        return work()

    def error_text(self, code: int) -> str:
        raise AssertionError(code)


def test_several_threads_ask_once() -> None:
    library = Library()
    gpu = NvmlReader(library, 0, "handle")
    here = threading.Barrier(4)

    def ask(number: int) -> Any:
        if here.wait(10) == 0:
            library.release.set()
        return gpu.once("name", "nvmlDeviceGetName")

    assert list(side_by_side(ask, range(4))) == [1, 1, 1, 1]
    assert library.asked == 1


def test_what_could_not_be_measured_is_asked_again() -> None:
    library = Library(failures=1)
    library.release.set()
    gpu = NvmlReader(library, 0, "handle")
    with pytest.raises(CouldNotMeasure, match="gpu0: name: Unknown Error"):
        gpu.once("name", "nvmlDeviceGetName")
    assert [gpu.once("name", "nvmlDeviceGetName") for _ in range(2)] == [2, 2]


def test_other_arguments_are_another_question() -> None:
    library = Library()
    library.release.set()
    gpu = NvmlReader(library, 0, "handle")
    assert [gpu.once("link", "nvmlDeviceGetNvLinkState", link) for link in (0, 1, 0)] == [1, 2, 1]


def test_a_gpu_knows_itself_by_its_handle() -> None:
    class Device(ctypes.Structure):
        pass

    places = (ctypes.c_char * 2)()
    handles = [
        ctypes.cast(ctypes.addressof(places) + place, ctypes.POINTER(Device)) for place in (0, 0, 1)
    ]
    gpu = NvmlReader(Library(), 0, handles[0])
    assert [gpu.is_at(handle) for handle in handles] == [True, True, False]
    assert not NvmlReader(Library(), 0, None, CouldNotMeasure("lost")).is_at(handles[0])
