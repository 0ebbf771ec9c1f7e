"""node/nvml/events.py over a library that holds events; over a C library in test_load_watch.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, TypeVar

import pynvml

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.quantities import GpuEvent
from hwcheck.contract.reasons import Reason
from hwcheck.node.nvml.events import KINDS, EventWatch
from hwcheck.node.nvml.reader import GpuLost, NotSupported, TimedOut

XID, DOUBLE_BIT = pynvml.nvmlEventTypeXidCriticalError, pynvml.nvmlEventTypeDoubleBitEccError
CLOCK = pynvml.nvmlEventTypeClock
SET = object()


T = TypeVar("T")


class Library:
    """NVML as far as events go: what was registered, and what it will tell, errors among it."""

    def __init__(self, *answers: Any) -> None:
        self.answers = [*answers, TimedOut("Timeout")]

    def ask(self, names: Sequence[str], *args: Any) -> Any:
        if names == ("nvmlEventSetCreate",):
            return SET
        assert (names, args) == (("nvmlEventSetWait_v2",), (SET, 0))
        answer = self.answers.pop(0)
        if isinstance(answer, CouldNotMeasure):
            raise answer
        return answer

    def constant(self, name: str) -> Any:
        return getattr(pynvml, name)

    def together(self, work: Callable[[], T]) -> T:
        return work()

    def error_text(self, code: int) -> str:
        return str(code)


class Gpu:
    """One that is known by its number and says which events it can tell of."""

    def __init__(self, number: int, supported: int | CouldNotMeasure) -> None:
        self.number, self.supported = number, supported
        self.registered = 0

    @property
    def subject(self) -> str:
        return f"gpu{self.number}"

    def pci_address(self) -> str:
        return f"0000:{self.number:02x}:00.0"

    def is_at(self, handle: Any) -> bool:
        return bool(handle == self.number)

    def read(self, quantity: str, name: str, *args: Any) -> Any:
        if isinstance(self.supported, CouldNotMeasure):
            raise self.supported
        if name == "nvmlDeviceRegisterEvents":
            self.registered, events = args
            assert events is SET
        return self.supported


def told(gpu: int, kind: int, data: int = 0) -> Any:
    return SimpleNamespace(device=gpu, eventType=kind, eventData=data)


def test_events_come_in_order_and_once() -> None:
    library = Library(told(1, XID, 79), told(0, DOUBLE_BIT), told(7, XID, 31), told(0, 1 << 60))
    watch = EventWatch(library, [Gpu(0, XID | DOUBLE_BIT), Gpu(1, XID)])
    assert watch.events() == [
        GpuEvent("0000:01:00.0", "xid", 79),
        GpuEvent("0000:00:00.0", "double_bit_ecc"),
        GpuEvent("", "xid", 31),  # of no GPU that NVML counts
        GpuEvent("0000:00:00.0", f"event_{1 << 60}"),
    ]
    assert watch.problem.text == ""
    library.answers = [TimedOut("Timeout")]
    assert watch.events() == []


def test_only_faults_are_listened_to() -> None:
    gpu = Gpu(0, XID | DOUBLE_BIT | CLOCK)
    EventWatch(Library(), [gpu])
    assert gpu.registered == XID | DOUBLE_BIT


def test_a_gpu_that_cannot_be_listened_to_is_named_and_costs_only_itself() -> None:
    gpus = [Gpu(0, NotSupported("gpu0: events: Not Supported")), Gpu(1, CLOCK), Gpu(2, XID)]
    watch = EventWatch(Library(told(2, XID, 48)), gpus)
    assert watch.events() == [GpuEvent("0000:02:00.0", "xid", 48)]
    assert watch.problem.text == "gpu0: events: Not Supported; gpu1: events: none of a fault"


def test_a_driver_without_events_is_a_problem_and_no_error() -> None:
    class Old(Library):
        def ask(self, names: Sequence[str], *args: Any) -> Any:
            raise NotSupported("Function Not Found")

    watch = EventWatch(Old(), [Gpu(0, XID)])
    assert (watch.events(), watch.problem.text) == ([], "NVML events: Function Not Found")


def test_what_was_told_before_an_error_is_kept() -> None:
    watch = EventWatch(Library(told(0, XID, 79), GpuLost("GPU is lost")), [Gpu(0, XID)])
    assert watch.events() == [GpuEvent("0000:00:00.0", "xid", 79)]
    assert watch.problem == Reason("gpu_lost", "NVML events: GPU is lost")


def test_each_kind_is_one_bit_of_its_own() -> None:
    bits = [getattr(pynvml, name) for name in KINDS]
    assert all(bin(bit).count("1") == 1 for bit in bits)
    assert len(set(bits)) == len(set(KINDS.values())) == len(bits)
