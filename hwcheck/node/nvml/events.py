"""What NVML reports by itself while the payload listens: Xids, memory errors, lost GPUs."""

from __future__ import annotations

from typing import Any, Dict, List, Protocol, Sequence

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.quantities import GpuEvent
from hwcheck.contract.reasons import Reason, together
from hwcheck.node.nvml.reader import Library, NotSupported, TimedOut

KINDS = {
    "nvmlEventTypeXidCriticalError": "xid",
    "nvmlEventTypeSingleBitEccError": "single_bit_ecc",
    "nvmlEventTypeDoubleBitEccError": "double_bit_ecc",
    "nvmlEventTypeSingleBitEccErrorStorm": "single_bit_ecc_storm",
    "nvmlEventTypeDramRetirementEvent": "dram_retirement",
    "nvmlEventTypeDramRetirementFailure": "dram_retirement_failure",
    "nvmlEventTypeNonFatalPoisonError": "non_fatal_poison",
    "nvmlEventTypeFatalPoisonError": "fatal_poison",
    "nvmlEventTypeGpuUnavailableError": "gpu_unavailable",
    "nvmlEventTypeGpuRecoveryAction": "gpu_recovery_action",
}
"""Events that tell of a fault, by their constant. Changes of clock, power state, power source and
MIG belong to any load."""

EVENT_LIMIT = 10_000


class EventSource(Protocol):
    """What is needed of a GPU: ``gpu.Gpu`` has it."""

    @property
    def subject(self) -> str:
        """``gpu3``."""

    def pci_address(self) -> str:
        """Return its address on the bus, as ``0000:3b:00.0``."""

    def read(self, quantity: str, name: str, *args: Any) -> Any:
        """Ask NVML about this GPU. Raises CouldNotMeasure."""

    def is_at(self, handle: Any) -> bool:
        """Whether NVML means this GPU by a handle."""


class EventWatch:
    """Listens from now on. NVML keeps what happens until it is asked, and nothing from before.

    ``problem`` says which GPUs cannot be listened to and why; it is empty where all can.
    """

    def __init__(self, nvml: Library, gpus: Sequence[EventSource]) -> None:
        self._nvml = nvml
        self._gpus = gpus
        self._kinds: Dict[int, str] = {}
        self._problems: List[Reason] = []
        try:
            self._set = nvml.ask(("nvmlEventSetCreate",))
            self._kinds = {int(nvml.constant(name)): kind for name, kind in KINDS.items()}
        except CouldNotMeasure as error:
            self._problems.append(error.reason.about("NVML events"))
            return
        for gpu in gpus:
            try:
                self._listen_to(gpu)
            except CouldNotMeasure as error:
                self._problems.append(error.reason)

    @property
    def problem(self) -> Reason:
        """Why not all that is listened for can be told; empty where it can."""
        return together(self._problems)

    def events(self) -> List[GpuEvent]:
        """Return what happened since the last call, in NVML's order."""
        events: List[GpuEvent] = []
        while self._kinds and len(events) < EVENT_LIMIT:
            try:
                data = self._nvml.ask(("nvmlEventSetWait_v2",), self._set, 0)
            except TimedOut:
                break  # nothing is left
            except CouldNotMeasure as error:
                self._problems.append(error.reason.about("NVML events"))
                break
            kind = self._kinds.get(int(data.eventType), "event_%d" % data.eventType)
            events.append(GpuEvent(self._address(data.device), kind, int(data.eventData)))
        return events

    def _listen_to(self, gpu: EventSource) -> None:
        supported = int(gpu.read("events", "nvmlDeviceGetSupportedEventTypes"))
        wanted = sum(bit for bit in self._kinds if supported & bit)
        if not wanted:
            raise NotSupported("%s: events: none of a fault" % gpu.subject)
        gpu.read("events", "nvmlDeviceRegisterEvents", wanted, self._set)

    def _address(self, device: Any) -> str:
        for gpu in self._gpus:
            if gpu.is_at(device):
                return gpu.pci_address()
        return ""
