"""A node made from the JSON of a case: what its bus, its kernel, NVML and NCCL would say.

``node`` holds ``pci_gpus``, ``driver_version``, ``container``, ``memory_available_bytes``,
``ports`` (by PCI address: ``width_max``, ``generation_max``), ``nvml_status``,
``nvml_driver_version``, ``gpus`` and ``legs``. Each of ``gpus`` overrides the quantities in
``gpu``. A quantity that is absent or ``{"error": text}`` cannot be measured; a GPU that is
``{"error": text}`` cannot be opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from hwcheck.node.check import CouldNotMeasure
from hwcheck.wire import Leg, Request

HOST_KEYS = {"pci_gpus", "driver_version", "container", "memory_available_bytes", "ports"}
NVML_KEYS = {"nvml_status", "nvml_driver_version", "gpus", "gpu"}
NODE_KEYS = HOST_KEYS | NVML_KEYS | {"legs", "legs_error"}


class FakeGpu:
    """Implements ``check.Gpu``."""

    def __init__(self, index: int, says: Mapping[str, Any]) -> None:
        self._index = index
        self._says = says
        unknown = set(says) - {"error"} - {name for name in vars(FakeGpu) if name[0] != "_"}
        assert not unknown, f"no such quantity of a GPU: {sorted(unknown)}"

    @property
    def subject(self) -> str:
        return f"gpu{self._index}"

    def _say(self, quantity: str) -> Any:
        problem = self._says.get("error")
        value = self._says.get(quantity, {"error": "Not Supported"})
        if problem is None and isinstance(value, dict):
            problem = f"{quantity}: {value['error']}"
        if problem is not None:
            raise CouldNotMeasure(f"{self.subject}: {problem}")
        return value

    def pci_address(self) -> str:
        return str(self._say("pci_address"))

    def power_limit_w(self) -> float:
        return float(self._say("power_limit_w"))

    def power_limit_default_w(self) -> float:
        return float(self._say("power_limit_default_w"))

    def temperature_c(self) -> int:
        return int(self._say("temperature_c"))

    def temperature_slowdown_c(self) -> int:
        return int(self._say("temperature_slowdown_c"))

    def utilization_percent(self) -> int:
        return int(self._say("utilization_percent"))

    def persistence_mode(self) -> bool:
        return bool(self._say("persistence_mode"))

    def pcie_link_width(self) -> int:
        return int(self._say("pcie_link_width"))

    def pcie_link_width_max(self) -> int:
        return int(self._say("pcie_link_width_max"))

    def pcie_link_generation(self) -> int:
        return int(self._say("pcie_link_generation"))

    def pcie_link_generation_max(self) -> int:
        return int(self._say("pcie_link_generation_max"))

    def compute_processes(self) -> list[int]:
        return list(self._say("compute_processes"))


class FakeHost:
    """Implements ``check.Host``."""

    def __init__(self, says: Mapping[str, Any]) -> None:
        self._says = says

    def pci_gpus(self) -> list[str]:
        return list(self._says.get("pci_gpus", []))

    def driver_version(self) -> str:
        return str(self._says.get("driver_version", ""))

    def pcie_port_width_max(self, pci_address: str) -> int:
        return self._port(pci_address, "width_max")

    def pcie_port_generation_max(self, pci_address: str) -> int:
        return self._port(pci_address, "generation_max")

    def in_container(self) -> bool:
        return bool(self._says.get("container", False))

    def memory_available_bytes(self) -> int:
        return int(self._says.get("memory_available_bytes", 1 << 36))

    def _port(self, address: str, key: str) -> int:
        port = self._says.get("ports", {}).get(address)
        if port is None:
            raise CouldNotMeasure(f"no port above {address}")
        return int(port[key])


class FakeNode:
    """Implements ``check.Node``."""

    def __init__(
        self, says: Mapping[str, Any], expect: Mapping[str, Any] | None = None, **request: Any
    ) -> None:
        assert set(says) <= NODE_KEYS, f"unknown in a case's node: {sorted(set(says) - NODE_KEYS)}"
        self._says = says
        self.request = Request(token="0", checks=(), expect=dict(expect or {}), **request)
        self.host = FakeHost(says)

    def gpus(self) -> list[FakeGpu]:
        self._nvml_or_raise()
        common = self._says.get("gpu", {})
        own = enumerate(self._says.get("gpus", []))
        return [FakeGpu(index, gpu if "error" in gpu else {**common, **gpu}) for index, gpu in own]

    def nvml_status(self) -> str:
        return str(self._says.get("nvml_status", "ok"))

    def nvml_driver_version(self) -> str:
        self._nvml_or_raise()
        if "nvml_driver_version" not in self._says:
            raise CouldNotMeasure("Not Supported")
        return str(self._says["nvml_driver_version"])

    def legs(self, collective: str) -> Iterator[Leg]:
        for leg in self._says.get("legs", []):
            yield Leg.from_dict({"collective": collective, **leg})
        if "legs_error" in self._says:
            raise CouldNotMeasure(self._says["legs_error"])

    def busy(self) -> str:
        pids = [pid for gpu in self.gpus() for pid in gpu.compute_processes()]
        return f"process {pids[0]} uses a GPU" if pids else ""

    def _nvml_or_raise(self) -> None:
        if self.nvml_status() != "ok":
            raise CouldNotMeasure(self.nvml_status())
