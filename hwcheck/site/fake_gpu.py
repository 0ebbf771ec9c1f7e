"""A GPU made from the JSON of a case.

A quantity that is absent or ``{"error": text}`` cannot be measured; a GPU that is
``{"error": text}`` cannot be opened. ``null`` is what this GPU does not have, and
``{"then": [...]}`` is what one read after the other gives, the last one for ever. What has
several values (``hwcheck/node/quantities.py``) is an object of them, and what is said of another
GPU (``pcie_path``, ``p2p_status``) an object by ``gpu<index>``, with ``all`` for the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.quantities import (
    Clocks,
    EccErrors,
    Fabric,
    GpuProcess,
    Mode,
    NvLink,
    NvLinkErrors,
    NvLinkRates,
    P2PStatus,
    RackPlace,
    RetiredPages,
    RowRemap,
)

T = TypeVar("T")


class FakeGpu:
    """Implements ``check.Gpu``."""

    def __init__(self, index: int, says: Mapping[str, Any]) -> None:
        self._index = index
        self._says = says
        self._reads: dict[str, int] = {}
        unknown = set(says) - {"error"} - {name for name in vars(FakeGpu) if name[0] != "_"}
        assert not unknown, f"no such quantity of a GPU: {sorted(unknown)}"

    @property
    def subject(self) -> str:
        return f"gpu{self._index}"

    def _say(self, quantity: str) -> Any:
        problem = self._says.get("error")
        value = self._says.get(quantity, {"error": "Not Supported"})
        if isinstance(value, dict) and "then" in value:
            read = self._reads.get(quantity, 0)
            self._reads[quantity] = read + 1
            value = value["then"][min(read, len(value["then"]) - 1)]
        if problem is None and isinstance(value, dict) and "error" in value:
            problem = f"{quantity}: {value['error']}"
        if problem is not None:
            raise CouldNotMeasure(f"{self.subject}: {problem}")
        return value

    def pci_address(self) -> str:
        return str(self._say("pci_address"))

    def loss(self) -> str:
        return str(self._say("loss"))

    def recovery_action(self) -> int | None:
        return self._maybe("recovery_action", int) if "recovery_action" in self._says else None

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

    def compute_mode(self) -> str | None:
        return self._maybe("compute_mode", str)

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

    def name(self) -> str:
        return str(self._say("name"))

    def uuid(self) -> str:
        return str(self._say("uuid"))

    def board_id(self) -> str:
        return str(self._say("board_id"))

    def serial(self) -> str | None:
        return self._maybe("serial", str)

    def board_part_number(self) -> str | None:
        return self._maybe("board_part_number", str)

    def vbios(self) -> str | None:
        return self._maybe("vbios", str)

    def inforom_image(self) -> str | None:
        return self._maybe("inforom_image", str)

    def inforom_valid(self) -> bool | None:
        return self._maybe("inforom_valid", bool)

    def mig_mode(self) -> Mode | None:
        return self._record("mig_mode", Mode)

    def ecc_mode(self) -> Mode | None:
        return self._record("ecc_mode", Mode)

    def ecc_default(self) -> bool | None:
        return self._maybe("ecc_default", bool)

    def ecc_errors(self) -> EccErrors | None:
        return self._record("ecc_errors", EccErrors)

    def sram_threshold_exceeded(self) -> bool | None:
        return self._maybe("sram_threshold_exceeded", bool)

    def row_remap(self) -> RowRemap | None:
        return self._record("row_remap", RowRemap)

    def retired_pages(self) -> RetiredPages | None:
        return self._record("retired_pages", RetiredPages)

    def memory_total_bytes(self) -> int:
        return int(self._say("memory_total_bytes"))

    def memory_used_bytes(self) -> int | None:
        return self._maybe("memory_used_bytes", int)

    def memory_reserved_bytes(self) -> int | None:
        if "memory_reserved_bytes" not in self._says:
            return None
        return self._maybe("memory_reserved_bytes", int)

    def virtualization_mode(self) -> str | None:
        if "virtualization_mode" not in self._says:
            return None
        return self._maybe("virtualization_mode", str)

    def power_w(self) -> float | None:
        return self._maybe("power_w", float)

    def bar1_total_bytes(self) -> int | None:
        return self._maybe("bar1_total_bytes", int)

    def clock_event_reasons(self) -> list[str] | None:
        return self._maybe("clock_event_reasons", list)

    def performance_state(self) -> int | None:
        return self._maybe("performance_state", int)

    def application_clocks(self) -> Clocks | None:
        return self._record("application_clocks", Clocks)

    def temperature_shutdown_c(self) -> int | None:
        return self._maybe("temperature_shutdown_c", int)

    def temperature_max_operating_c(self) -> int | None:
        if "temperature_max_operating_c" not in self._says:
            return None
        return self._maybe("temperature_max_operating_c", int)

    def memory_temperature_c(self) -> int | None:
        return self._maybe("memory_temperature_c", int)

    def memory_temperature_max_c(self) -> int | None:
        return self._maybe("memory_temperature_max_c", int)

    def fan_speeds_percent(self) -> list[int]:
        return list(self._say("fan_speeds_percent"))

    def pcie_replays(self) -> int | None:
        return self._maybe("pcie_replays", int)

    def nvlinks(self) -> list[NvLink]:
        return [NvLink(**link) for link in self._say("nvlinks")]

    def nvlink_to_switch(self) -> bool | None:
        return self._maybe("nvlink_to_switch", bool)

    def nvlink_remotes(self) -> list[str]:
        return list(self._say("nvlink_remotes"))

    def nvlink_version(self) -> str | None:
        return self._maybe("nvlink_version", str)

    def pcie_path(self, peer: int) -> str | None:
        path = self._of("pcie_path", peer)
        return None if path is None else str(path)

    def p2p_status(self, peer: int) -> P2PStatus:
        return P2PStatus(**self._of("p2p_status", peer))

    def cpu_affinity(self) -> str | None:
        return self._maybe("cpu_affinity", str)

    def numa_affinity(self) -> str | None:
        return self._maybe("numa_affinity", str)

    def numa_id(self) -> int | None:
        return self._maybe("numa_id", int)

    def nvlink_errors(self) -> list[NvLinkErrors]:
        return [NvLinkErrors(**link) for link in self._say("nvlink_errors")]

    def nvlink_rates(self) -> list[NvLinkRates]:
        if "nvlink_rates" not in self._says:
            return []
        return [NvLinkRates(**link) for link in self._say("nvlink_rates")]

    def fabric(self) -> Fabric | None:
        return self._record("fabric", Fabric)

    def rack_place(self) -> RackPlace | None:
        return self._record("rack_place", RackPlace) if "rack_place" in self._says else None

    def processes(self) -> list[GpuProcess]:
        return [GpuProcess(**process) for process in self._say("processes")]

    def _of(self, quantity: str, peer: int) -> Any:
        values = self._say(quantity)
        value = values.get(f"gpu{peer}", values.get("all", {"error": "Not Supported"}))
        if isinstance(value, dict) and "error" in value:
            raise CouldNotMeasure(f"{self.subject}: {quantity} of gpu{peer}: {value['error']}")
        return value

    def _maybe(self, quantity: str, kind: Callable[[Any], T]) -> T | None:
        value = self._say(quantity)
        return None if value is None else kind(value)

    def _record(self, quantity: str, kind: Callable[..., T]) -> T | None:
        value = self._say(quantity)
        return None if value is None else kind(**value)
