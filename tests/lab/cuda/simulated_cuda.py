"""The part of ``torch.cuda`` that the load and the copies between GPUs use, over simulated GPUs.

A tensor on ``cuda:0`` has the shape it was asked for, and holds a corner of its elements only: what
is computed is computed for real there, in the real format, so products have bits that can differ.
How long it takes is what the whole of it would take the GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType, SimpleNamespace
from typing import Any

import simulated_gpu
import simulated_nccl

CUDA_VERSION = "12.8"
EDGE = 8
INTEGERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


_current = [0]
"""The place of the GPU that work is queued on, where no tensor says it."""


class Tensor:
    """Memory of a GPU, or pinned memory of the host."""

    def __init__(
        self, corner: Any, shape: Sequence[int], pinned: bool = False, place: int = 0
    ) -> None:
        self._corner = corner
        self._of: tuple[Tensor, Any] | None = None
        self.shape = tuple(shape)
        self.pinned = pinned
        self.place = place
        self.size_bytes = math.prod(self.shape) * self.element_size()
        self.products: dict[Tensor, Any] = {}

    @property
    def corner(self) -> Any:
        if self._of is None:
            return self._corner
        other, dtype = self._of
        return other.corner.view(dtype)

    def element_size(self) -> int:
        return int(self._corner.element_size())

    def like(self, corner: Any) -> Tensor:
        return Tensor(corner, self.shape, self.pinned, self.place)

    @property
    def gpu(self) -> simulated_gpu.Gpu:
        return simulated_gpu.gpu(self.place)

    def copy_(self, other: Tensor, non_blocking: bool = False) -> Tensor:
        wrong = False
        if self.pinned:
            other.gpu.transfer(self.size_bytes, "from_device_share")
        elif other.pinned:
            self.gpu.transfer(self.size_bytes, "to_device_share")
        elif self.place != other.place:
            wrong = other.gpu.send(self.size_bytes, self.gpu)
        else:
            self.gpu.copy(self.size_bytes)
        self.corner.copy_(other.corner)
        if wrong:
            self.corner[3] ^= 1
        return self

    def mul_(self, factor: int) -> Tensor:
        self.gpu.copy(self.size_bytes)
        self.corner.mul_(factor)
        return self

    def add_(self, summand: int) -> Tensor:
        self.gpu.copy(self.size_bytes)
        self.corner.add_(summand)
        return self

    def zero_(self) -> Tensor:
        self.corner.zero_()
        return self

    def view(self, dtype: Any) -> Tensor:
        corner = self.corner.view(dtype)
        last = self.shape[-1] * self.element_size() // corner.element_size()
        made = Tensor(corner, (*self.shape[:-1], last), self.pinned, self.place)
        made._of = self, dtype
        return made

    def product(self, corner: Any) -> None:
        """Hold the result of a product; the same one may be held by others."""
        self._corner = corner

    def __ne__(self, other: object) -> Any:
        assert isinstance(other, Tensor)
        assert self.place == other.place
        self.gpu.copy(self.size_bytes)
        if self._of and other._of and self._of[0]._corner is other._of[0]._corner:
            return ALIKE
        return self.like(self.corner != other.corner)

    def __iadd__(self, other: Tensor | Alike) -> Tensor:
        if isinstance(other, Tensor):
            self._corner += other.corner
        return self

    def any(self) -> Tensor:
        return Tensor(self.corner.any(), (), place=self.place)

    def sum(self, dim: int, dtype: Any) -> Tensor:
        rest = [edge for place, edge in enumerate(self.shape) if place != dim]
        return Tensor(self.corner.sum(dim=dim, dtype=dtype), rest, place=self.place)

    def item(self) -> Any:
        _wait(self.place)
        return self.corner.item()

    def tolist(self) -> Any:
        _wait(self.place)
        return self.corner.tolist()

    def flip(self, torch: ModuleType) -> None:
        """Flip the lowest bit of one element."""
        self._corner = self._corner.clone()
        self._corner.view(getattr(torch, INTEGERS[self.element_size()]))[3, 5] ^= 1


class Alike:
    """What differs between two products that are one: found without working anything out."""

    def any(self) -> Alike:
        return self


ALIKE = Alike()


class Event:
    """A point in the queue of work."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False) -> None:
        self._at_s = 0.0
        self._place = 0

    def record(self) -> None:
        self._place = _current[0]
        self._at_s = simulated_gpu.gpu(self._place).clock.done_s

    def synchronize(self) -> None:
        simulated_gpu.gpu(self._place).clock.wait(self._at_s)

    def elapsed_time(self, end: Event) -> float:
        return (end._at_s - self._at_s) * 1e3


def install(torch: ModuleType) -> None:
    """Let this torch have CUDA."""
    torch.version.cuda = CUDA_VERSION
    for name in ("empty", "zeros", "randn"):
        setattr(torch, name, _maker(getattr(torch, name)))
    torch.empty_like = _empty_like(torch.empty_like)
    torch.arange = _arange(torch.arange)
    torch.mm = _mm(torch, torch.mm)
    torch.Generator = _generator(torch.Generator)
    torch.cuda.is_available = lambda: bool(simulated_gpu.visible())
    torch.cuda.device_count = lambda: len(simulated_gpu.visible())
    torch.cuda.set_device = _set_device
    torch.cuda.device = _on
    torch.cuda.get_device_properties = _properties
    torch.cuda.get_arch_list = lambda: ["sm_70", "compute_70"]
    torch.cuda.mem_get_info = lambda device=None: _gpu(device).memory_bytes()
    torch.cuda.synchronize = lambda device=None: _wait(_place(device))
    torch.cuda.can_device_access_peer = lambda one, other: bool(_gpu(one).says["peer_access"])
    torch.cuda.Event = Event
    simulated_nccl.install(torch)


def _place(device: object) -> int:
    """Return the place of ``1``, ``cuda:1`` or ``cuda``; without any, the current one."""
    if device is None or device == "cuda":
        return _current[0]
    return int(str(device).rpartition(":")[2])


def _gpu(device: object) -> simulated_gpu.Gpu:
    return simulated_gpu.gpu(_place(device))


def _set_device(device: object) -> None:
    _gpu(device)
    _current[0] = _place(device)


@contextmanager
def _on(device: object) -> Iterator[None]:
    before, _current[0] = _current[0], _place(device)
    try:
        yield
    finally:
        _current[0] = before


def _wait(place: int) -> None:
    clock = simulated_gpu.gpu(place).clock
    clock.wait(clock.done_s)


def _properties(device: object) -> SimpleNamespace:
    gpu = _gpu(device)
    major, minor = gpu.capability
    processors = gpu.says["processors"]
    return SimpleNamespace(major=major, minor=minor, multi_processor_count=processors)


def _on_gpu(device: object) -> bool:
    return str(device).startswith("cuda")


def _maker(real: Callable[..., Any]) -> Callable[..., Any]:
    def make(*size: Any, **how: Any) -> Any:
        pinned = how.pop("pin_memory", False)
        if not pinned and not _on_gpu(how.get("device")):
            return real(*size, **how)
        place = _place(how.pop("device", None))
        shape = size[0] if isinstance(size[0], Sequence) else size
        corner = real([min(edge, EDGE) for edge in shape], **how)
        return Tensor(corner, shape, pinned, place)

    return make


def _arange(real: Callable[..., Any]) -> Callable[..., Any]:
    def make(*bounds: int, **how: Any) -> Any:
        if not _on_gpu(how.get("device")):
            return real(*bounds, **how)
        (end,), place = bounds, _place(how.pop("device"))
        return Tensor(real(min(end, EDGE), **how), (end,), place=place)

    return make


def _empty_like(real: Callable[..., Any]) -> Callable[..., Any]:
    def make(other: Any, **how: Any) -> Any:
        return other.like(real(other.corner)) if isinstance(other, Tensor) else real(other, **how)

    return make


def _mm(torch: ModuleType, real: Callable[..., Any]) -> Callable[..., Any]:
    def multiply(left: Any, right: Any, *, out: Any = None) -> Any:
        if not isinstance(out, Tensor):
            return real(left, right, out=out)
        wrong = out.gpu.multiply(2.0 * math.prod(left.shape) * right.shape[1])
        # The same product is the same again: it is worked out once.
        if right not in left.products:
            left.products[right] = real(left.corner, right.corner)
        out.product(left.products[right])
        if wrong:
            out.flip(torch)
        return out

    return multiply


def _generator(real: type) -> type:
    class Generator(real):  # type: ignore[misc]
        def __new__(cls, device: object = "cpu") -> Any:
            return real("cpu" if _on_gpu(device) else device)

    return Generator
