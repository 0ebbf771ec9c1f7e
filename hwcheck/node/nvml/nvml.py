"""The one reader of NVML, and the only file that touches pynvml.

Every call goes through ``Nvml.ask``, which bounds it in time. Function names and error texts are
those of the NVML API Reference Guide, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import time
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    List,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
)

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.reasons import NO_ANSWER
from hwcheck.contract.wire import GpuFacts
from hwcheck.node.nvml.gpu import Gpu
from hwcheck.node.nvml.reader import (
    CorruptedInforom,
    DriverBroken,
    FunctionMissing,
    GpuLost,
    NoPermission,
    NotSupported,
    TimedOut,
    VersionMismatch,
    text,
)
from hwcheck.node.threads import Bounded, side_by_side

if TYPE_CHECKING:  # what only a load needs is imported by it: a node compiles what it imports
    from hwcheck.node.nvml.events import EventWatch
    from hwcheck.node.nvml.samples import SampleReader

T = TypeVar("T")

ERRORS: Dict[str, Type[CouldNotMeasure]] = {
    "NOT_SUPPORTED": NotSupported,
    "FUNCTION_NOT_FOUND": FunctionMissing,
    "DEPRECATED": FunctionMissing,
    "ARGUMENT_VERSION_MISMATCH": VersionMismatch,
    "NO_PERMISSION": NoPermission,
    "CORRUPTED_INFOROM": CorruptedInforom,
    "GPU_IS_LOST": GpuLost,
    "RESET_REQUIRED": GpuLost,
    "TIMEOUT": TimedOut,
    "DRIVER_NOT_LOADED": DriverBroken,
    "LIBRARY_NOT_FOUND": DriverBroken,
    "LIB_RM_VERSION_MISMATCH": DriverBroken,
}
"""What NVML_ERROR_* mean here; every other one is a CouldNotMeasure."""

CALL_TIMEOUT_S = 10.0
"""NVML answers in microseconds to milliseconds once the GPUs are open."""

OPENING_S, OPENING_S_PER_GPU = 30.0, 10.0
"""Without persistence mode the first handle of a GPU has the driver initialize it, in 1-4 s, one
GPU after the other: 25-30 s for 8 x A100 (Azure/AgentBaker pull request 2829, Azure/aks-gpu 105).
The rest is for the module that is loaded first, and for a machine that is at work."""
GPUS_OF_HIDDEN_BUS = 8
"""So many are allowed for where the bus shows none: a baseboard's."""


def opening_timeout_s(gpus_on_bus: int) -> float:
    """Return how long opening NVML, or all GPUs, may take with so many GPUs on the PCI bus."""
    return OPENING_S + OPENING_S_PER_GPU * (gpus_on_bus or GPUS_OF_HIDDEN_BUS)


class Nvml:
    """NVML as loaded on this node. Nothing is loaded before the first question.

    Opening it, and then all GPUs, may take ``opening_s`` each, every later call ``timeout_s``.
    """

    def __init__(
        self,
        timeout_s: float = CALL_TIMEOUT_S,
        opening_s: Callable[[], float] = lambda: opening_timeout_s(GPUS_OF_HIDDEN_BUS),
    ) -> None:
        self._opening_s = opening_s
        self._took_s = 0.0
        self._opening: Optional[int] = None
        self._bounded = Bounded("NVML", timeout_s)
        self._pynvml: Any = None
        self._kinds: Dict[Any, Type[CouldNotMeasure]] = {}
        self._status = self._status_code = ""
        self._gpus: Optional[List[Gpu]] = None

    def status(self) -> str:
        """Return ``ok``, or in NVML's own words why it cannot be used. Initializes NVML once."""
        if not self._status:
            try:
                self._bounded.call_within(self._opening_s(), self._load)
                self._status = "ok"
            except CouldNotMeasure as error:
                self._status, self._status_code = str(error), error.reason.code
        if self._bounded.hung and self._opening is not None:
            return "%s: gpu%d does not open" % (self._bounded.hung, self._opening)
        return self._bounded.hung or self._status

    def driver_version(self) -> str:
        """Return the driver version that NVML reports. Raises CouldNotMeasure."""
        return text(self.ask(("nvmlSystemGetDriverVersion",)))

    def cuda_driver_version(self) -> str:
        """Return the newest CUDA version that the driver runs. Raises CouldNotMeasure."""
        names = ("nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion")
        number = int(self.ask(names))  # 12080 is 12.8
        return "%d.%d" % (number // 1000, number % 1000 // 10)

    def gpus(self) -> List[Gpu]:
        """Return every GPU that NVML counts, in its order. Raises CouldNotMeasure.

        A GPU that NVML counts and cannot open (lost from the bus, no permission) is among them:
        each of its methods raises CouldNotMeasure with NVML's reason.
        """
        if self._gpus is None:
            self._usable()
            try:
                self._gpus = self._bounded.call_within(self._opening_s(), self._open_all)
            except CouldNotMeasure:
                self._usable()  # which says where it hangs
                raise
        return list(self._gpus)

    def opening_took_s(self) -> float:
        """Return how long opening NVML and all GPUs took. Raises as ``gpus`` does."""
        self.gpus()
        return self._took_s

    def watch_events(self) -> EventWatch:
        """Listen to every GPU's events from now on. Raises CouldNotMeasure."""
        from hwcheck.node.nvml.events import EventWatch

        return EventWatch(self, self.gpus())

    def sampled(self) -> List[SampleReader]:
        """Return every GPU for whoever reads it often. Raises CouldNotMeasure.

        Their calls are not bounded in time: a thread for each call would cost more than the call.
        """
        from hwcheck.node.nvml.samples import SampleReader

        return [SampleReader.of(gpu, _Unbounded(self)) for gpu in self.gpus()]

    def facts(self) -> List[GpuFacts]:
        """Return what identifies each GPU; empty where NVML does not answer."""
        try:
            return list(side_by_side(Gpu.facts, self.gpus()))
        except CouldNotMeasure:
            return []

    def ask(self, names: Sequence[str], *args: Any) -> Any:
        """Call the first of these NVML functions that this driver and this pynvml have.

        Raises CouldNotMeasure with NVML's error text, or when NVML hangs; NotSupported where the
        GPU or the driver does not have it, NoPermission where this user may not ask.
        """
        self._usable()
        return self._bounded.call(self._call, names, args)

    def together(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns: what it asks is bounded in time as one.

        For many quick questions: a thread for each takes longer than they do. Raises as ``work``.
        """
        answer: T = self._bounded.call(work)
        return answer

    def constant(self, name: str) -> Any:
        """Return one of pynvml's constants or structures; call it after NVML has answered.

        Raises FunctionMissing where this pynvml does not have it.
        """
        value = getattr(self._pynvml, name, None)
        if value is None:
            raise FunctionMissing("pynvml has no %s" % name)
        return value

    def error_text(self, code: int) -> str:
        """Return NVML's words for one of its return codes, ``Success`` for 0."""
        return "Success" if code == 0 else str(self._pynvml.NVMLError(code))

    def _usable(self) -> None:
        status = self.status()
        if status != "ok":
            code = NO_ANSWER if self._bounded.hung else self._status_code
            raise CouldNotMeasure(status, code)

    def _load(self) -> None:
        try:
            import pynvml
        except ImportError as error:
            raise CouldNotMeasure("pynvml cannot be imported: %s" % error) from None
        self._pynvml = pynvml
        codes = {getattr(pynvml, "NVML_ERROR_" + name, None): name for name in ERRORS}
        self._kinds = {code: ERRORS[name] for code, name in codes.items()}
        begin_s = time.monotonic()
        self._call(("nvmlInit",), ())
        self._took_s += time.monotonic() - begin_s

    def _call(self, names: Sequence[str], args: Tuple[Any, ...]) -> Any:
        reason = ""
        for name in names:
            function = getattr(self._pynvml, name, None)
            if function is None:
                reason = reason or "pynvml has no %s" % name
                continue
            try:
                return function(*args)
            except self._pynvml.NVMLError as error:
                kind = self._kinds.get(error.value, CouldNotMeasure)
                if kind is not FunctionMissing:
                    raise kind(str(error)) from None
                reason = str(error)
        raise FunctionMissing(reason)

    def _open_all(self) -> List[Gpu]:
        gpus, begin_s = [], time.monotonic()
        # In order: the driver initializes one at a time, and so the one that hangs is known.
        for index in range(self._call(("nvmlDeviceGetCount",), ())):
            self._opening = index
            gpus.append(self._open(index))
        self._opening = None
        self._took_s += time.monotonic() - begin_s
        return gpus

    def _open(self, index: int) -> Gpu:
        try:
            return Gpu(self, index, self._call(("nvmlDeviceGetHandleByIndex",), (index,)))
        except CouldNotMeasure as error:
            return Gpu(self, index, None, error)


class _Unbounded:
    """NVML, called at once in the thread that asks."""

    def __init__(self, nvml: Nvml) -> None:
        self.constant, self.error_text = nvml.constant, nvml.error_text
        self._call = nvml._call

    def ask(self, names: Sequence[str], *args: Any) -> Any:
        return self._call(names, args)

    def together(self, work: Callable[[], T]) -> T:
        return work()
