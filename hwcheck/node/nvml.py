"""The one reader of NVML, and the only file that touches pynvml.

Every call goes through ``Nvml.ask``, which bounds it in time. Units are converted here: NVML's
milliwatts leave as watts. Function names and error texts are those of the NVML API Reference
Guide, https://docs.nvidia.com/deploy/nvml-api/.
"""

from __future__ import annotations

import os
import re
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from hwcheck.node.bounded import Bounded
from hwcheck.node.check import CouldNotMeasure

CALL_TIMEOUT_S = 10.0
"""NVML answers in microseconds to milliseconds; opening a GPU without persistence takes seconds."""

PROCESSES = tuple("nvmlDeviceGetComputeRunningProcesses" + end for end in ("_v3", "_v2", ""))
TEMPERATURE = ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV")


class NotSupported(CouldNotMeasure):
    """NVML says that this GPU does not have what was asked for."""


class Nvml:
    """NVML as loaded on this node. Nothing is loaded before the first question."""

    def __init__(self, timeout_s: float = CALL_TIMEOUT_S) -> None:
        self._bounded = Bounded("NVML", timeout_s)
        self._pynvml: Any = None
        self._status = ""
        self._gpus: Optional[List[NvmlGpu]] = None

    def status(self) -> str:
        """Return ``ok``, or in NVML's own words why it cannot be used. Initializes NVML once."""
        if not self._status:
            try:
                self._bounded.call(self._load)
                self._status = "ok"
            except CouldNotMeasure as error:
                self._status = str(error)
        return self._bounded.hung or self._status

    def driver_version(self) -> str:
        """Return the driver version that NVML reports. Raises CouldNotMeasure."""
        return _text(self.ask(("nvmlSystemGetDriverVersion",)))

    def gpus(self) -> List[NvmlGpu]:
        """Return every GPU that NVML counts, in its order. Raises CouldNotMeasure.

        A GPU that NVML counts and cannot open (lost from the bus, no permission) is among them:
        each of its methods raises CouldNotMeasure with NVML's reason.
        """
        if self._gpus is None:
            count = self.ask(("nvmlDeviceGetCount",))
            self._gpus = [self._open(index) for index in range(count)]
        return list(self._gpus)

    def facts(self) -> List[Dict[str, Any]]:
        """Return what identifies each GPU; a key is left out where the GPU does not say.

        Empty where NVML does not answer. A GPU that cannot be opened has ``index`` and ``error``.
        """
        try:
            return [gpu.facts() for gpu in self.gpus()]
        except CouldNotMeasure:
            return []

    def ask(self, names: Sequence[str], *args: Any) -> Any:
        """Call the first of these NVML functions that this driver and this pynvml have.

        Raises CouldNotMeasure with NVML's error text, or when NVML hangs.
        """
        status = self.status()
        if status != "ok":
            raise CouldNotMeasure(status)
        return self._bounded.call(self._call, names, args)

    def constant(self, name: str) -> Any:
        """Return one of NVML's constants; call it after NVML has answered."""
        return getattr(self._pynvml, name)

    def _load(self) -> None:
        try:
            import pynvml
        except ImportError as error:
            raise CouldNotMeasure("pynvml cannot be imported: %s" % error) from None
        self._pynvml = pynvml
        self._call(("nvmlInit",), ())

    def _call(self, names: Sequence[str], args: Tuple[Any, ...]) -> Any:
        missing = self._pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
        reason, kind = "", CouldNotMeasure
        for name in names:
            function = getattr(self._pynvml, name, None)
            if function is None:
                reason = reason or "pynvml has no %s" % name
                continue
            try:
                return function(*args)
            except self._pynvml.NVMLError as error:
                reason = str(error)
                if error.value == self._pynvml.NVML_ERROR_NOT_SUPPORTED:
                    kind = NotSupported
                if error.value != missing:
                    break
        raise kind(reason)

    def _open(self, index: int) -> NvmlGpu:
        try:
            return NvmlGpu(self, index, self.ask(("nvmlDeviceGetHandleByIndex",), index))
        except CouldNotMeasure as error:
            return NvmlGpu(self, index, None, str(error))


class NvmlGpu:
    """One GPU; implements ``check.Gpu``. Errors name the GPU and the quantity."""

    def __init__(self, nvml: Nvml, index: int, handle: Any, problem: str = "") -> None:
        self._nvml = nvml
        self._index = index
        self._handle = handle
        self._problem = problem

    @property
    def subject(self) -> str:
        """See ``check.Gpu``."""
        return "gpu%d" % self._index

    def pci_address(self) -> str:
        """See ``check.Gpu``."""
        bus_id = _text(self._read("PCI address", "nvmlDeviceGetPciInfo").busId)
        try:
            return sysfs_address(bus_id)
        except CouldNotMeasure as error:
            raise CouldNotMeasure("%s: %s" % (self.subject, error)) from None

    def power_limit_w(self) -> float:
        """See ``check.Gpu``."""
        return self._number("power limit", "nvmlDeviceGetEnforcedPowerLimit") / 1000.0

    def power_limit_default_w(self) -> float:
        """See ``check.Gpu``."""
        name = "nvmlDeviceGetPowerManagementDefaultLimit"
        return self._number("default power limit", name) / 1000.0

    def temperature_c(self) -> int:
        """See ``check.Gpu``."""
        sensor = self._nvml.constant("NVML_TEMPERATURE_GPU")
        return int(self._read("temperature", TEMPERATURE, sensor))

    def temperature_slowdown_c(self) -> int:
        """See ``check.Gpu``.

        From Ada on, NVML may give the distance to the threshold instead of the threshold.
        """
        kind = self._nvml.constant("NVML_TEMPERATURE_THRESHOLD_SLOWDOWN")
        quantity, name = "slowdown temperature", "nvmlDeviceGetTemperatureThreshold"
        try:
            return self._number(quantity, name, kind)
        except CouldNotMeasure as error:
            try:
                margin = self._read("thermal margin", "nvmlDeviceGetMarginTemperature")
            except CouldNotMeasure:
                raise error from None
            return self.temperature_c() + int(margin)

    def utilization_percent(self) -> int:
        """See ``check.Gpu``."""
        return int(self._read("utilization", "nvmlDeviceGetUtilizationRates").gpu)

    def persistence_mode(self) -> bool:
        """See ``check.Gpu``."""
        mode = self._read("persistence mode", "nvmlDeviceGetPersistenceMode")
        return bool(mode == self._nvml.constant("NVML_FEATURE_ENABLED"))

    def pcie_link_width(self) -> int:
        """See ``check.Gpu``."""
        return self._number("PCIe link width", "nvmlDeviceGetCurrPcieLinkWidth")

    def pcie_link_width_max(self) -> int:
        """See ``check.Gpu``."""
        return self._number("maximum PCIe link width", "nvmlDeviceGetMaxPcieLinkWidth")

    def pcie_link_generation(self) -> int:
        """See ``check.Gpu``."""
        return self._number("PCIe generation", "nvmlDeviceGetCurrPcieLinkGeneration")

    def pcie_link_generation_max(self) -> int:
        """See ``check.Gpu``."""
        return self._number("maximum PCIe generation", "nvmlDeviceGetMaxPcieLinkGeneration")

    def compute_processes(self) -> List[int]:
        """See ``check.Gpu``. This process is left out."""
        own = os.getpid()
        found = self._read("compute processes", PROCESSES)
        return [int(process.pid) for process in found if process.pid != own]

    def facts(self) -> Dict[str, Any]:
        """Return name, uuid, PCI address and ids, VBIOS, memory, default power and NVLinks."""
        facts: Dict[str, Any] = {"index": self._index}
        if self._problem:
            facts["error"] = self._problem
            return facts
        readers: Dict[str, Callable[[], Any]] = {
            "name": lambda: _text(self._read("name", "nvmlDeviceGetName")),
            "uuid": lambda: _text(self._read("UUID", "nvmlDeviceGetUUID")),
            "pci_address": self.pci_address,
            "pci_device_id": lambda: self._pci_id("pciDeviceId"),
            "pci_subsystem_id": lambda: self._pci_id("pciSubSystemId"),
            "serial": lambda: _text(self._read("serial number", "nvmlDeviceGetSerial")),
            "vbios": lambda: _text(self._read("VBIOS", "nvmlDeviceGetVbiosVersion")),
            "memory_total_bytes": lambda: int(
                self._read("memory", "nvmlDeviceGetMemoryInfo").total
            ),
            "power_limit_default_w": self.power_limit_default_w,
            "nvlink_links": self._active_nvlinks,
        }
        for key, reader in readers.items():
            try:
                facts[key] = reader()
            except CouldNotMeasure:
                continue  # this GPU does not say: the key stays out
        return facts

    def _pci_id(self, field: str) -> str:
        return "0x%08X" % getattr(self._read("PCI ids", "nvmlDeviceGetPciInfo"), field)

    def _active_nvlinks(self) -> int:
        active = 0
        for link in range(self._nvml.constant("NVML_NVLINK_MAX_LINKS")):
            try:
                active += self._read("NVLink %d" % link, "nvmlDeviceGetNvLinkState", link) == 1
            except NotSupported:
                break
            except CouldNotMeasure:
                if link == 0:
                    raise
                break  # links are numbered without gaps: this GPU has no more
        return active

    def _number(self, quantity: str, name: str, *args: Any) -> int:
        # 0 lanes, 0 W or 0 degrees as a limit is no figure that anything could be held against.
        value = int(self._read(quantity, name, *args))
        if value <= 0:
            raise CouldNotMeasure("%s: %s: NVML says %d" % (self.subject, quantity, value))
        return value

    def _read(self, quantity: str, name: Any, *args: Any) -> Any:
        if self._problem:
            raise CouldNotMeasure("%s: %s" % (self.subject, self._problem))
        names = (name,) if isinstance(name, str) else name
        try:
            return self._nvml.ask(names, self._handle, *args)
        except CouldNotMeasure as error:
            raise type(error)("%s: %s: %s" % (self.subject, quantity, error)) from None


def sysfs_address(bus_id: str) -> str:
    """Return NVML's ``00000000:18:00.0`` as sysfs spells it: ``0000:18:00.0``.

    Raises CouldNotMeasure when it is not a PCI address.
    """
    match = re.fullmatch(r"([0-9a-fA-F]+):([0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])", bus_id)
    if not match:
        raise CouldNotMeasure("%r is not a PCI address" % bus_id[:40])
    return "%04x:%s" % (int(match.group(1), 16), match.group(2).lower())


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
