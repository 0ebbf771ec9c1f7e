"""One GPU by NVML. Units are converted here: milliwatts leave as watts.

Nothing here touches pynvml: every question goes through ``nvml.Nvml``.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional, Set

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.quantities import Clocks, GpuProcess, Mode
from hwcheck.contract.wire import GpuFacts
from hwcheck.node.nvml.memory import MemoryReader
from hwcheck.node.nvml.reader import (
    MARGIN,
    CorruptedInforom,
    GpuLost,
    NoPermission,
    NotSupported,
    text,
)
from hwcheck.node.nvml.topology import TopologyReader, sysfs_address

COMPUTE = tuple("nvmlDeviceGetComputeRunningProcesses" + end for end in ("_v3", "_v2", ""))
CLIENTS = tuple("nvmlDeviceGetMPSComputeRunningProcesses" + end for end in ("_v3", "_v2", ""))
GRAPHICS = tuple("nvmlDeviceGetGraphicsRunningProcesses" + end for end in ("_v3", "_v2", ""))
TEMPERATURE = ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV")
PERFORMANCE = ("nvmlDeviceGetPerformanceState", "nvmlDeviceGetPowerState")
CLOCK_EVENTS = (
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
)
CLOCK_EVENT_BITS = (
    "idle",
    "application_clocks",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake",
    "display_clocks",
)
"""nvmlClocksEventReason* by bit; bits that came later are named by their number."""

COMPUTE_MODES = ("default", "exclusive_thread", "prohibited", "exclusive_process")
"""nvmlComputeMode_t by number."""

VIRTUALIZATION_MODES = ("none", "passthrough", "vgpu", "host_vgpu", "host_vsga")
"""nvmlGpuVirtualizationMode_t by number."""
WITH_ALL_LINKS = ("none", "passthrough")
"""In these a GPU that names no NVLink has none."""

NAME_LIMIT = 40
"""Characters of a process name that are kept."""


class Gpu(MemoryReader, TopologyReader):
    """One GPU as a check sees it: each public method is a reading.

    It raises CouldNotMeasure where NVML does not answer; the error names the GPU and the quantity.
    One that may return None does so where this GPU does not have the thing; it raises where the
    GPU has it and cannot say now, with MIG on for example.
    """

    def pci_address(self) -> str:
        """``0000:18:00.0``, as sysfs spells it."""
        bus_id = text(self.once("PCI address", "nvmlDeviceGetPciInfo").busId)
        try:
            return sysfs_address(bus_id)
        except CouldNotMeasure as error:
            raise CouldNotMeasure.of(error.reason.about(self.subject)) from None

    def loss(self) -> str:
        """NVML's words for a GPU that is lost or waits for a reset; empty while it answers."""
        try:
            self.temperature_c()  # read from the chip each time, so a lost one cannot answer
        except GpuLost as error:
            return str(error)
        except NotSupported:
            return ""
        return ""

    def recovery_action(self) -> Optional[int]:
        """Repair that the driver wants before it takes work (``xids.RECOVERY_ACTIONS``)."""
        field = self._constant("NVML_FI_DEV_GET_GPU_RECOVERY_ACTION") or 0
        return self.fields("recovery action", [field]).get(field)

    def name(self) -> str:
        """Model (``NVIDIA H100 80GB HBM3``)."""
        return text(self.once("name", "nvmlDeviceGetName"))

    def uuid(self) -> str:
        """``GPU-...``, unique to this GPU."""
        return text(self.once("UUID", "nvmlDeviceGetUUID"))

    def board_id(self) -> str:
        """PCI device and subsystem id: boards of one id are of one design."""
        return "%s %s" % (self._pci_id("pciDeviceId"), self._pci_id("pciSubSystemId"))

    def serial(self) -> Optional[str]:
        """Board serial number."""
        return self._text("serial number", "nvmlDeviceGetSerial")

    def board_part_number(self) -> Optional[str]:
        """Part number of the board."""
        return self._text("board part number", "nvmlDeviceGetBoardPartNumber")

    def vbios(self) -> Optional[str]:
        """Version of the VBIOS."""
        return self._text("VBIOS", "nvmlDeviceGetVbiosVersion")

    def inforom_image(self) -> Optional[str]:
        """Version of the infoROM image."""
        return self._text("infoROM", "nvmlDeviceGetInforomImageVersion")

    def mig_mode(self) -> Optional[Mode]:
        """Whether the GPU is split into instances (MIG)."""
        return self._mig_mode()

    def inforom_valid(self) -> Optional[bool]:
        """Whether the checksums of the infoROM in flash hold."""
        try:
            self.read("infoROM", "nvmlDeviceValidateInforom")
        except CorruptedInforom:
            return False
        except NotSupported:
            return None
        return True

    def virtualization_mode(self) -> Optional[str]:
        """``none``, ``passthrough``, ``vgpu`` (a share of a GPU in a guest), ``host_vgpu``."""
        name = "nvmlDeviceGetVirtualizationMode"
        mode = self.remembered(name, lambda: self.optional("virtualization mode", name))
        if mode is None:
            return None
        is_named = 0 <= int(mode) < len(VIRTUALIZATION_MODES)
        return VIRTUALIZATION_MODES[int(mode)] if is_named else "mode %d" % mode

    def power_w(self) -> Optional[float]:
        """Power that the board draws now."""
        milliwatts = self.optional("power", "nvmlDeviceGetPowerUsage")
        return None if milliwatts is None else int(milliwatts) / 1000.0

    def power_limit_w(self) -> float:
        """Enforced power limit: the smallest of all that are in force."""
        return self.number("power limit", "nvmlDeviceGetEnforcedPowerLimit") / 1000.0

    def power_limit_default_w(self) -> float:
        """Power limit that the board boots with."""
        name = "nvmlDeviceGetPowerManagementDefaultLimit"
        return self.remembered(name, lambda: self.number("default power limit", name)) / 1000.0

    def temperature_c(self) -> int:
        """Core temperature now."""
        sensor = self._nvml.constant("NVML_TEMPERATURE_GPU")
        return int(self.read("temperature", TEMPERATURE, sensor))

    def temperature_slowdown_c(self) -> int:
        """Threshold of the board's own at which hardware slows down."""
        # From Ada on, NVML may give the distance to the threshold instead of the threshold.
        kind = self._nvml.constant("NVML_TEMPERATURE_THRESHOLD_SLOWDOWN")
        quantity, name = "slowdown temperature", "nvmlDeviceGetTemperatureThreshold"
        try:
            return self.remembered((name, kind), lambda: self.number(quantity, name, kind))
        except CouldNotMeasure as error:
            try:
                margin = self.read("thermal margin", MARGIN)
            except CouldNotMeasure:
                raise error from None
            return self.temperature_c() + int(margin) - (self.limit_c("SLOWDOWN") or 0)

    def temperature_shutdown_c(self) -> Optional[int]:
        """Threshold of the board's own at which it switches itself off."""
        return self._core_threshold("SHUTDOWN")

    def temperature_max_operating_c(self) -> Optional[int]:
        """Threshold of the board's own from which on the driver lowers the clocks."""
        return self._core_threshold("GPU_MAX")

    def memory_temperature_c(self) -> Optional[int]:
        """Memory temperature now."""
        # 0 is what a board without the sensor may say.
        field = self._nvml.constant("NVML_FI_DEV_MEMORY_TEMP")
        return self.fields("memory temperature", [field]).get(field) or None

    def memory_temperature_max_c(self) -> Optional[int]:
        """Threshold of the board's own above which its memory is too hot."""
        return self._threshold("MEM_MAX")

    def fan_speeds_percent(self) -> List[int]:
        """Intended speed of each fan; empty without fans. What a fan really does is not told."""
        fans = self.optional("fans", "nvmlDeviceGetNumFans")
        speeds = [
            self.optional("fan %d" % fan, "nvmlDeviceGetFanSpeed_v2", fan)
            for fan in range(fans or 0)
        ]
        return [int(speed) for speed in speeds if speed is not None]

    def clock_event_reasons(self) -> Optional[List[str]]:
        """Names of what holds the clocks down now (``hw_thermal_slowdown``)."""
        bits = self.optional("clock event reasons", CLOCK_EVENTS)
        if bits is None:
            return None
        names = dict(enumerate(CLOCK_EVENT_BITS))
        return [names.get(bit, "bit_%d" % bit) for bit in range(64) if int(bits) >> bit & 1]

    def performance_state(self) -> Optional[int]:
        """0 (fastest) to 15."""
        state = self.optional("performance state", PERFORMANCE)
        return None if state is None or not 0 <= int(state) <= 15 else int(state)

    def application_clocks(self) -> Optional[Clocks]:
        """Clocks that applications get, and the default."""
        clocks: List[int] = []
        for name in ("nvmlDeviceGetApplicationsClock", "nvmlDeviceGetDefaultApplicationsClock"):
            for kind in ("NVML_CLOCK_GRAPHICS", "NVML_CLOCK_MEM"):
                clock = self.optional("application clocks", name, self._nvml.constant(kind))
                if not clock:
                    return None
                clocks.append(int(clock))
        return Clocks(*clocks)

    def utilization_percent(self) -> int:
        """Share of the last sample period in which a kernel ran."""
        rates = self.unless_mig("utilization", "nvmlDeviceGetUtilizationRates")
        if rates is None:
            raise CouldNotMeasure("%s: utilization: Not Supported" % self.subject)
        return int(rates.gpu)

    def persistence_mode(self) -> bool:
        """Whether the driver stays loaded with no client."""
        mode = self.read("persistence mode", "nvmlDeviceGetPersistenceMode")
        return bool(mode == self._nvml.constant("NVML_FEATURE_ENABLED"))

    def compute_mode(self) -> Optional[str]:
        """Which processes may compute: ``default``, ``exclusive_process``, ``prohibited``."""
        mode = self.optional("compute mode", "nvmlDeviceGetComputeMode")
        if mode is None:
            return None
        is_named = 0 <= int(mode) < len(COMPUTE_MODES)
        return COMPUTE_MODES[int(mode)] if is_named else "mode %d" % mode

    def compute_processes(self) -> List[int]:
        """Process ids with a compute context and none for graphics, but the one that asks."""
        pids = [int(process.pid) for process in self.read("compute processes", COMPUTE)]
        others = [pid for pid in pids if pid != os.getpid()]
        drawing = self._drawing() if others else set()
        return [pid for pid in others if pid not in drawing]

    def processes(self) -> List[GpuProcess]:
        """Every process with a compute or graphics context, but the one that asks.

        One with both is ``graphics``.
        """
        # A process with both kinds of context (C+G of nvidia-smi) is listed as graphics: GNOME and
        # KDE have both on Wayland.
        by_pid: Dict[int, GpuProcess] = {}
        lists = (("compute", CLIENTS), ("compute", COMPUTE), ("graphics", GRAPHICS))
        for kind, names in lists:
            for process in self.unless_mig("%s processes" % kind, names) or ():
                pid, memory = int(process.pid), process.usedGpuMemory
                if pid != os.getpid():
                    used = None if memory is None else int(memory)
                    by_pid[pid] = GpuProcess(pid, kind, self._process_name(pid), used)
        return list(by_pid.values())

    def _drawing(self) -> Set[int]:
        """Return the processes with a graphics context; with MIG on NVML tells of none."""
        try:
            processes = self.optional("graphics processes", GRAPHICS)
        except NoPermission:
            return set()
        return {int(process.pid) for process in processes or ()}

    def facts(self) -> GpuFacts:
        """Return what identifies the GPU, as far as it says it."""
        if self._problem:
            return GpuFacts(self._index, error=str(self._problem))
        readers: Dict[str, Callable[[], Any]] = {
            "name": self.name,
            "uuid": self.uuid,
            "pci_address": self.pci_address,
            "pci_device_id": lambda: self._pci_id("pciDeviceId"),
            "pci_subsystem_id": lambda: self._pci_id("pciSubSystemId"),
            "serial": self.serial,
            "vbios": self.vbios,
            "memory_total_bytes": self.memory_total_bytes,
            "power_limit_default_w": self.power_limit_default_w,
            "nvlink_links": self._active_nvlinks,
            "mig": self._split,
        }
        facts: Dict[str, Any] = {"index": self._index}
        for key, reader in readers.items():
            try:
                facts[key] = reader()
            except CouldNotMeasure:
                continue  # this GPU does not say it
        return GpuFacts.from_dict(facts)

    def _split(self) -> Optional[bool]:
        mode = self.mig_mode()
        return None if mode is None else mode.current

    def _active_nvlinks(self) -> Optional[int]:
        """Count them: 0 on a board without NVLink, None where it may be hidden (MIG, a guest)."""
        links = self.nvlinks()
        shows_all = not self._split() and self.virtualization_mode() in WITH_ALL_LINKS
        return sum(link.active for link in links) if links or shows_all else None

    def _process_name(self, pid: int) -> str:
        try:
            path = text(self._nvml.ask(("nvmlSystemGetProcessName",), pid))
        except CouldNotMeasure:
            return ""  # ended since, or of another namespace
        name = path.rpartition("/")[2]
        return "".join(char for char in name if char.isprintable())[:NAME_LIMIT]

    def _pci_id(self, field: str) -> str:
        return "0x%08X" % getattr(self.once("PCI ids", "nvmlDeviceGetPciInfo"), field)

    def _text(self, quantity: str, name: str) -> Optional[str]:
        value = self.remembered(name, lambda: self.optional(quantity, name))
        return None if value is None else text(value)

    def _threshold(self, kind: str) -> Optional[int]:
        code = self._nvml.constant("NVML_TEMPERATURE_THRESHOLD_" + kind)
        quantity, name = "temperature threshold", "nvmlDeviceGetTemperatureThreshold"
        value = self.remembered((name, code), lambda: self.optional(quantity, name, code))
        return int(value) if value else None

    def _core_threshold(self, kind: str) -> Optional[int]:
        threshold, limit = self._threshold(kind), None
        if threshold is None:
            limit = self.limit_c(kind)
        if limit is None:
            return threshold
        margin = self.optional("thermal margin", MARGIN)
        return None if margin is None else self.temperature_c() + int(margin) - limit
