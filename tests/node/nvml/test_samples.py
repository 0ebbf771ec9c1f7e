"""nvml_samples.py: over a library in this process, and over the simulated NVML."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import pynvml
import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.nvml.reader import GpuLost, NoPermission, NotSupported
from hwcheck.node.nvml.samples import EACH, OFTEN, SELDOM, SampleReader
from tests.lab.nvml_answers import Stand

FIELDS = {
    pynvml.NVML_FI_DEV_POWER_INSTANT: 690_500,
    pynvml.NVML_FI_DEV_POWER_AVERAGE: 688_000,
    pynvml.NVML_FI_DEV_MEMORY_TEMP: 60,
}


T = TypeVar("T")


class Library:
    """A GPU that has everything; ``says`` overrides it by NVML function, ``fields`` by field."""

    def __init__(self, **says: Any) -> None:
        self.says, self.fields = says, dict(FIELDS)
        self.asked: list[str] = []

    def ask(self, names: Sequence[str], *args: Any) -> Any:
        name = names[0]
        self.asked.append(name)
        answer = self.says.get(name, getattr(self, name, None))
        if callable(answer):
            answer = answer(*args)
        if isinstance(answer, CouldNotMeasure):
            raise answer
        return 7 if answer is None else answer

    def nvmlDeviceGetFieldValues(self, handle: Any, fields: list[int]) -> list[Any]:  # noqa: N802
        return [
            SimpleNamespace(
                nvmlReturn=0 if field in self.fields else 3,
                valueType=pynvml.NVML_VALUE_TYPE_UNSIGNED_INT,
                value=SimpleNamespace(uiVal=self.fields.get(field, 0)),
            )
            for field in fields
        ]

    def nvmlDeviceGetUtilizationRates(self, handle: Any) -> Any:  # noqa: N802
        return SimpleNamespace(gpu=99)

    def constant(self, name: str) -> Any:
        return getattr(pynvml, name)

    def together(self, work: Callable[[], T]) -> T:
        return work()

    def error_text(self, code: int) -> str:
        return str(code)


def reader(library: Library) -> SampleReader:
    return SampleReader(library, 3, "handle")


EACH_TIME = {
    "power_w", "power_average_w", "temperature_c", "memory_temperature_c", "sm_clock_mhz",
    "clock_events",
}  # fmt: skip
SOMETIMES = {
    "memory_clock_mhz", "utilization_percent", "ecc_uncorrected", "ecc_corrected",
    "pcie_generation", "pcie_width", "pcie_replays", "fan_percent",
}  # fmt: skip
RARELY = {"pcie_tx_gbps", "pcie_rx_gbps"}


def test_how_deep_a_reading_goes() -> None:
    gpu = reader(Library())
    assert set(gpu.sample(EACH)) == EACH_TIME
    assert set(gpu.sample(OFTEN)) == EACH_TIME | SOMETIMES
    assert set(gpu.sample(SELDOM)) == EACH_TIME | SOMETIMES | RARELY


def test_units() -> None:
    said = reader(Library(nvmlDeviceGetPcieThroughput=1_500_000, nvmlDeviceGetPowerUsage=1)).sample(
        SELDOM
    )
    assert (said["power_w"], said["power_average_w"]) == (690.5, 688.0)
    assert (said["memory_temperature_c"], said["utilization_percent"]) == (60, 99)
    assert said["pcie_tx_gbps"] == 1.5


def test_a_driver_without_the_fields_is_asked_for_power_by_its_function() -> None:
    library = Library(nvmlDeviceGetPowerUsage=71_500)
    library.fields.clear()
    gpu = reader(library)
    assert gpu.sample(EACH)["power_w"] == 71.5
    assert library.asked.count("nvmlDeviceGetFieldValues") == 1
    gpu.sample(EACH)
    assert library.asked.count("nvmlDeviceGetFieldValues") == 1


def test_a_memory_sensor_that_says_0_is_none() -> None:
    library = Library()
    library.fields[pynvml.NVML_FI_DEV_MEMORY_TEMP] = 0
    assert "memory_temperature_c" not in reader(library).sample(EACH)


@pytest.mark.parametrize("missing", [NotSupported("Not Supported"), NoPermission("no")])
def test_what_a_gpu_does_not_have_is_not_asked_again(missing: CouldNotMeasure) -> None:
    library = Library(nvmlDeviceGetTotalEccErrors=missing, nvmlDeviceGetNumFans=missing)
    gpu = reader(library)
    assert set(gpu.sample(OFTEN)) == EACH_TIME | SOMETIMES - {
        "ecc_uncorrected", "ecc_corrected", "fan_percent"
    }  # fmt: skip
    gpu.sample(OFTEN)
    assert library.asked.count("nvmlDeviceGetTotalEccErrors") == 2, "once for each kind"
    assert library.asked.count("nvmlDeviceGetNumFans") == 1


def test_the_thermal_margin_is_read_of_boards_that_give_no_threshold() -> None:
    library = Library(
        nvmlDeviceGetTemperatureThreshold=NotSupported("no"), nvmlDeviceGetMarginTemperature=21
    )
    gpu = reader(library)
    assert "thermal_margin_c" not in gpu.sample(EACH)
    assert gpu.sample(OFTEN)["thermal_margin_c"] == 21
    assert library.asked.count("nvmlDeviceGetTemperatureThreshold") == 1
    told = reader(Library(nvmlDeviceGetTemperatureThreshold=90))
    assert "thermal_margin_c" not in told.sample(OFTEN)
    library.fields[pynvml.NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT] = 2**32 - 2
    assert reader(library).sample(OFTEN)["thermal_margin_c"] == 23, "it slows down at -2"


def test_what_fails_once_is_asked_again() -> None:
    library = Library(nvmlDeviceGetTemperature=CouldNotMeasure("Unknown Error"))
    library.says["nvmlDeviceGetFieldValues"] = CouldNotMeasure("Unknown Error")
    gpu = reader(library)
    assert set(gpu.sample(EACH)) == {"power_w", "sm_clock_mhz", "clock_events"}
    library.says.clear()
    assert set(gpu.sample(EACH)) == EACH_TIME


def test_a_driver_that_gives_no_fields_hides_nothing_else() -> None:
    library = Library(
        nvmlDeviceGetTemperatureThreshold=NotSupported("no"), nvmlDeviceGetMarginTemperature=21
    )
    library.says["nvmlDeviceGetFieldValues"] = CouldNotMeasure("Unknown Error")
    said = reader(library).sample(OFTEN)
    assert (said["thermal_margin_c"], said["power_w"]) == (21, 7 / 1000)


@pytest.mark.parametrize("name", ["nvmlDeviceGetTemperature", "nvmlDeviceGetFieldValues"])
def test_a_lost_gpu_says_so(name: str) -> None:
    library = Library(**{name: GpuLost("GPU is lost")})
    with pytest.raises(GpuLost, match=r"gpu3: .*GPU is lost"):
        reader(library).sample(EACH)


def test_a_gpu_that_could_not_be_opened_says_why() -> None:
    gpu = SampleReader(Library(), 3, None, GpuLost("GPU is lost"))
    with pytest.raises(GpuLost, match="gpu3: GPU is lost"):
        gpu.sample(EACH)


def test_the_fastest_fan_counts() -> None:
    library = Library(nvmlDeviceGetNumFans=2)
    library.says["nvmlDeviceGetFanSpeed_v2"] = lambda handle, fan: (30, 45)[fan]
    assert reader(library).sample(OFTEN)["fan_percent"] == 45


SAMPLE = """
import json
from hwcheck.node.nvml.nvml import Nvml
print(json.dumps([gpu.sample(2) for gpu in Nvml().sampled()]))
"""


def test_over_the_c_library(fake_nvml: Path) -> None:
    def sampled(library: str) -> list[dict[str, float]]:
        folder = fake_nvml / library
        environment = Stand(folder, folder / "scenario").environment()
        done = subprocess.run(
            [sys.executable, "-c", SAMPLE], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        said: list[dict[str, float]] = json.loads(done.stdout)
        return said

    first, second = sampled("new")
    assert (first["temperature_c"], second["temperature_c"]) == (30, 31)
    assert (first["memory_temperature_c"], "memory_temperature_c" in second) == (44, False)
    assert ("fan_percent" in first, second["fan_percent"]) == (False, 31)
    assert (first["clock_events"], second["clock_events"]) == (1, 1 << 3 | 1 << 7 | 1 << 10)
    assert (first["pcie_generation"], first["pcie_width"], second["pcie_width"]) == (1, 16, 8)
    old = sampled("old")
    assert [gpu["clock_events"] for gpu in old] == [first["clock_events"], second["clock_events"]]
