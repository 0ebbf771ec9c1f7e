"""What is read of one GPU again and again while it works; names are those of ``load.records``."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.nvml.gpu import CLOCK_EVENTS, TEMPERATURE
from hwcheck.node.nvml.reader import (
    MARGIN,
    Field,
    GpuLost,
    Library,
    NoPermission,
    NotSupported,
    NvmlReader,
)

EACH, OFTEN, SELDOM = 0, 1, 2
"""How deep a reading goes: what changes at once; what counts up, hardly changes, or is an average
over a second; and the PCIe throughput, for which a driver watches the link for 20 ms (NVML API
Reference Guide, nvmlDeviceGetPcieThroughput)."""

FIELDS = {
    "power_w": "NVML_FI_DEV_POWER_INSTANT",
    "power_average_w": "NVML_FI_DEV_POWER_AVERAGE",
    "memory_temperature_c": "NVML_FI_DEV_MEMORY_TEMP",
}
"""Power now and over the last second in mW, memory temperature in C."""

Call = Tuple[str, Union[str, Sequence[str]], Tuple[Any, ...], Callable[[Any], float]]
"""Quantity, NVML function, its arguments, and what turns its answer into the quantity's unit."""


class SampleReader(NvmlReader):
    """One GPU, asked without a bound in time: whoever asks must be able to go on without it.

    What the GPU turns out not to have is not asked again.
    """

    def __init__(
        self, nvml: Library, index: int, handle: Any, problem: Optional[CouldNotMeasure] = None
    ) -> None:
        super().__init__(nvml, index, handle, problem)
        self._missing: Set[str] = set()
        self._plan: List[List[Call]] = []
        self._fields: Optional[Dict[str, int]] = None
        self._fields_answered = False
        self._fans: Optional[int] = None

    @classmethod
    def of(cls, gpu: NvmlReader, nvml: Library) -> SampleReader:
        """Return the reader of a GPU that was opened before."""
        return cls(nvml, gpu._index, gpu._handle, gpu._problem)

    def sample(self, depth: int) -> Dict[str, float]:
        """Return what the GPU says now, down to this depth; what it cannot say is left out.

        Raises GpuLost where nothing can be asked of it any more.
        """
        if self._problem:
            raise type(self._problem)("%s: %s" % (self.subject, self._problem))
        if not self._plan:
            self._plan = self._calls()
        values = self._field_values()
        for calls in self._plan[: depth + 1]:
            for quantity, names, args, convert in calls:
                if quantity in self._missing or quantity in values:
                    continue
                value = self._value(quantity, names, args)
                if value is not None:
                    values[quantity] = convert(value)
        if depth >= OFTEN:
            values.update(self._fan())
        return values

    def _calls(self) -> List[List[Call]]:
        constant = self._nvml.constant
        volatile = constant("NVML_VOLATILE_ECC")
        ecc = "nvmlDeviceGetTotalEccErrors"
        traffic = "nvmlDeviceGetPcieThroughput"
        clock = "nvmlDeviceGetClockInfo"
        margin: List[Call] = []
        kind = constant("NVML_TEMPERATURE_THRESHOLD_SLOWDOWN")
        if not self._value("slowdown", "nvmlDeviceGetTemperatureThreshold", (kind,)):
            limit = self._slowdown_limit_c()
            margin = [("thermal_margin_c", MARGIN, (), lambda value: int(value) - limit)]
        return [
            [
                ("power_w", "nvmlDeviceGetPowerUsage", (), _from_milli),
                ("temperature_c", TEMPERATURE, (constant("NVML_TEMPERATURE_GPU"),), int),
                ("sm_clock_mhz", clock, (constant("NVML_CLOCK_SM"),), int),
                ("clock_events", CLOCK_EVENTS, (), int),
            ],
            [
                *margin,
                ("memory_clock_mhz", clock, (constant("NVML_CLOCK_MEM"),), int),
                ("utilization_percent", "nvmlDeviceGetUtilizationRates", (), _of_gpu),
                (
                    "ecc_uncorrected",
                    ecc,
                    (constant("NVML_MEMORY_ERROR_TYPE_UNCORRECTED"), volatile),
                    int,
                ),
                (
                    "ecc_corrected",
                    ecc,
                    (constant("NVML_MEMORY_ERROR_TYPE_CORRECTED"), volatile),
                    int,
                ),
                ("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration", (), int),
                ("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth", (), int),
                ("pcie_replays", "nvmlDeviceGetPcieReplayCounter", (), int),
            ],
            [
                ("pcie_tx_gbps", traffic, (constant("NVML_PCIE_UTIL_TX_BYTES"),), _from_kilo),
                ("pcie_rx_gbps", traffic, (constant("NVML_PCIE_UTIL_RX_BYTES"),), _from_kilo),
            ],
        ]

    def _slowdown_limit_c(self) -> int:
        """Return what the margin is at the slowdown; 0, which is stricter, where nobody says it."""
        try:
            return self.limit_c("SLOWDOWN") or 0
        except GpuLost:
            raise
        except CouldNotMeasure:
            return 0

    def _value(self, quantity: str, names: Union[str, Sequence[str]], args: Any) -> Any:
        try:
            return self.read(quantity, names, *args)
        except (NotSupported, NoPermission):
            self._missing.add(quantity)
        except GpuLost:
            raise
        except CouldNotMeasure:
            return None  # it has it, and will perhaps say it the next time
        return None

    def _field_values(self) -> Dict[str, float]:
        """Return what comes in one call; a GPU that has none of it is asked once.

        nvmlDeviceGetPowerUsage, which is asked where a driver lacks the field, is the average
        over a second on Ampere and later.
        """
        if self._fields is None:
            self._fields = self._fields_of_pynvml()
        raw: Dict[Field, int] = {}
        if self._fields:
            try:
                raw = self.fields("power", list(self._fields.values()))
            except GpuLost:
                raise
            except CouldNotMeasure:
                return {}  # perhaps the next time
        values: Dict[str, float] = {}
        for name, field in self._fields.items():
            value = raw.get(field)
            if value:  # 0 is what a board without the sensor may say
                values[name] = value / 1000.0 if name.endswith("_w") else value
        if not self._fields_answered:
            self._fields = {name: field for name, field in self._fields.items() if name in values}
            self._fields_answered = True
        return values

    def _fields_of_pynvml(self) -> Dict[str, int]:
        fields = {}
        for name, constant in FIELDS.items():
            try:
                fields[name] = int(self._nvml.constant(constant))
            except NotSupported:
                continue  # an older pynvml
        return fields

    def _fan(self) -> Dict[str, float]:
        """Return the intended speed of the fastest fan."""
        if self._fans is None:
            self._fans = int(self._value("fan_percent", "nvmlDeviceGetNumFans", ()) or 0)
        speeds = []
        for fan in range(self._fans):
            if "fan_percent" not in self._missing:
                speed = self._value("fan_percent", "nvmlDeviceGetFanSpeed_v2", (fan,))
                speeds += [] if speed is None else [int(speed)]
        return {"fan_percent": max(speeds)} if speeds else {}


def _from_milli(value: Any) -> float:
    return int(value) / 1000.0


def _from_kilo(value: Any) -> float:
    return int(value) / 1e6  # NVML counts kB/s


def _of_gpu(rates: Any) -> float:
    return int(rates.gpu)
