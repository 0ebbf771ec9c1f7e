"""How one GPU is asked: errors name the GPU and the quantity, what it lacks is None."""

from __future__ import annotations

import ctypes
import threading
from typing import (
    Any,
    Callable,
    Dict,
    Hashable,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    TypeVar,
    Union,
)

from hwcheck.contract import reasons
from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.quantities import Mode

T = TypeVar("T")

VALUE_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Members of NVML's value union by its value type (nvmlValueType_t)."""

MARGIN = "nvmlDeviceGetMarginTemperature"
"""How far the core is from the temperature from which the other limits are counted too."""

LIMITS = {
    "SHUTDOWN": "NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT",
    "SLOWDOWN": "NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT",
    "GPU_MAX": "NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT",
}
"""Fields 193, 194 and 196 of nvml.h, by nvmlTemperatureThresholds_t: Ada and later have them."""

Field = Union[int, Tuple[int, int]]
"""A field id, or a field id and its scope (a link)."""


class NotSupported(CouldNotMeasure):
    """The GPU or its driver does not have what was asked for."""


class FunctionMissing(NotSupported):
    """The driver or pynvml has no such function or structure, or has it no more."""


class VersionMismatch(CouldNotMeasure):
    """The driver does not know this version of a structure."""


class NoPermission(CouldNotMeasure):
    """The user that runs the payload may not ask."""

    CODE = reasons.NO_PERMISSION


class GpuLost(CouldNotMeasure):
    """The GPU fell off the bus or waits for a reset: nothing can be asked of it."""

    CODE = reasons.GPU_LOST


class TimedOut(CouldNotMeasure):
    """What was waited for did not happen in the time that NVML was given."""

    CODE = reasons.NO_ANSWER


class DriverBroken(CouldNotMeasure):
    """There is no driver, or library and module are of two versions."""

    CODE = reasons.DRIVER_BROKEN


class CorruptedInforom(CouldNotMeasure):
    """The board's infoROM does not hold what its checksums say."""


class Library(Protocol):
    """What a reader needs of ``nvml.Nvml``."""

    def ask(self, names: Sequence[str], *args: Any) -> Any:
        """Call the first of these functions that is there. Raises CouldNotMeasure."""

    def together(self, work: Callable[[], T]) -> T:
        """Bound in time all that ``work`` asks as one; it may not use ``remembered``."""

    def constant(self, name: str) -> Any:
        """Return one of pynvml's constants or structures. Raises NotSupported."""

    def error_text(self, code: int) -> str:
        """Return NVML's words for one of its return codes."""


class NvmlReader:
    """One GPU and the ways to ask it. What ``once`` was asked is not asked again."""

    def __init__(
        self, nvml: Library, index: int, handle: Any, problem: Optional[CouldNotMeasure] = None
    ) -> None:
        self._nvml = nvml
        self._index = index
        self._handle = handle
        self._problem = problem
        self._remembered: Dict[Any, Any] = {}
        self._lock = threading.RLock()

    @property
    def subject(self) -> str:
        """``gpu<index>``, NVML's index."""
        return "gpu%d" % self._index

    def is_at(self, handle: Any) -> bool:
        """Whether NVML means this GPU by a handle of its own making."""
        return bool(self._handle) and _address(handle) == _address(self._handle)

    def _mig_mode(self) -> Optional[Mode]:
        try:
            current, pending = self.once("MIG mode", "nvmlDeviceGetMigMode")
        except NotSupported:
            return None
        return Mode(current == 1, pending == 1)

    def once(self, quantity: str, name: str, *args: Any) -> Any:
        """Read what does not change while the payload runs. Raises as ``read`` does."""
        return self.remembered((name, args), lambda: self.read(quantity, name, *args))

    def remembered(self, key: Hashable, read: Callable[[], T]) -> T:
        """Return what ``read`` returned the first time that this ``key`` was asked for.

        What raised is asked again. Whoever asks meanwhile waits for the one answer.
        """
        with self._lock:
            if key not in self._remembered:
                self._remembered[key] = read()
            value: T = self._remembered[key]
        return value

    def read(self, quantity: str, name: Union[str, Sequence[str]], *args: Any) -> Any:
        """Ask NVML about this GPU. Raises CouldNotMeasure, or the kinds of it above."""
        if self._problem:
            raise self._problem.about(self.subject)
        names = (name,) if isinstance(name, str) else name
        try:
            return self._nvml.ask(names, self._handle, *args)
        except CouldNotMeasure as error:
            raise error.about("%s: %s" % (self.subject, quantity)) from None

    def optional(self, quantity: str, name: Union[str, Sequence[str]], *args: Any) -> Any:
        """Read, or return None where the GPU does not have it. Raises CouldNotMeasure."""
        try:
            return self.read(quantity, name, *args)
        except NotSupported:
            return None

    def unless_mig(self, quantity: str, name: Union[str, Sequence[str]], *args: Any) -> Any:
        """Read as ``optional`` does, of what NVML refuses while MIG is on.

        Raises CouldNotMeasure then: the GPU has it and cannot say.
        """
        try:
            return self.read(quantity, name, *args)
        except (NotSupported, NoPermission) as error:
            mode = self._mig_mode()
            if mode is not None and mode.current:
                raise CouldNotMeasure("%s while MIG is on" % error, reasons.MIG) from None
            if isinstance(error, NoPermission):
                raise
            return None

    def number(self, quantity: str, name: str, *args: Any) -> int:
        """Read a figure that others are held against.

        Raises CouldNotMeasure for 0 or less: no lanes, 0 W or 0 degrees are no limit.
        """
        value = int(self.read(quantity, name, *args))
        if value <= 0:
            raise CouldNotMeasure("%s: %s: NVML says %d" % (self.subject, quantity, value))
        return value

    def structure(self, quantity: str, name: str, kind: str) -> Any:
        """Return pynvml's structure ``kind`` as this function fills it. Raises as ``read`` does."""
        filled = self._nvml.constant(kind)()
        # These functions of pynvml hand on what they get: a structure itself would go by value.
        self.read(quantity, name, ctypes.byref(filled))
        return filled

    def fields(self, quantity: str, fields: Sequence[Field]) -> Dict[Field, int]:
        """Read several fields in one call; one that this GPU does not have is left out."""
        if not fields:
            return {}
        values = self.optional(quantity, "nvmlDeviceGetFieldValues", list(fields))
        if values is None:
            return {}
        read = {field: _field(values[place]) for place, field in enumerate(fields)}
        return {field: value for field, value in read.items() if value is not None}

    def limit_c(self, kind: str) -> Optional[int]:
        """Return the margin in C at which the core is at one of ``LIMITS``; None where not given.

        ``nvidia-smi -q`` shows the margin as "GPU T.Limit Temp" and this as "GPU Slowdown T.Limit
        Temp" and so on: 0 for the maximum operating temperature, -2 for the slowdown 2 C above it
        (RTX 4090, H100; RTX PRO 6000 Blackwell counts from the slowdown).
        """
        return self.remembered(("limit", kind), lambda: self._limit_c(kind))

    def _limit_c(self, kind: str) -> Optional[int]:
        field = int(self._nvml.constant(LIMITS[kind]))
        value = self.fields("temperature limit", [field]).get(field)
        return None if value is None else ctypes.c_int32(value).value  # whatever type it comes in


def text(value: Any) -> str:
    """Return NVML's text as text, whichever way pynvml gives it."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _field(value: Any) -> Optional[int]:
    if value.nvmlReturn != 0 or not 0 <= value.valueType < len(VALUE_MEMBERS):
        return None
    return int(getattr(value.value, VALUE_MEMBERS[value.valueType]))


def _address(handle: Any) -> Optional[int]:
    return ctypes.cast(handle, ctypes.c_void_p).value
