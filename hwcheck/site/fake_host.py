"""The host half of a case's node.

Keys of ``node`` and what an absent one means:

- a method of ``check.Host`` that takes nothing is a key of its name, with the default in
  ``DEFAULTS``; records are objects, lists of records are lists of objects;
- ``numa_node_of`` is ``numa_node``, an object by PCI address; a device that is not in it is on
  none that is known;
- ``widths`` are those of ``pcie_widths``, in use and at most, by PCI address; ``generations``
  likewise, and 4 of 4 where nothing is given; ``pci_ids`` by address, and empty;
- ``no_pcie_link`` is the list of addresses that have none;
- ``container`` is ``in_container``; ``ports``, ``bridges``, ``acs_control``, ``ats_enabled``,
  ``aer_errors`` and ``iommu_domains`` are objects by PCI address; ``kernel_settings`` by name;
  ``filesystems`` by path; ``pci_answers`` is false by PCI address, ``pci_drivers`` is nvidia where
  not given; ``modules`` is the list of loaded ones; ``module_parameters`` are by ``module.name``,
  ``driver_parameters`` by name; ``container_settings`` are by runtime, ``programs`` is the list of
  those that are there; ``files`` are sizes in bytes by path, and a path that is not in it is not
  there;
  ``kernel_log`` is ``{"complete", "messages", "reach_s"}``; without the last it reaches back to
  the boot.

``{"error": text}`` in place of any value cannot be measured, and so can what has no default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.host.facts import (
    ContainerSettings,
    Filesystem,
    Gid,
    HugePages,
    Imex,
    KernelLog,
    KernelMessage,
    Mount,
    NcclSetting,
    Neighbor,
    NvmeDrive,
    Part,
    RdmaPort,
    TorchStack,
)

ABSENT = {"error": "not there"}
DEFAULTS: dict[str, Any] = {
    "pci_gpus": [],
    "nvswitches": [],
    "fabric_manager_runs": None,
    "mps_runs": False,
    "imex": ABSENT,
    "driver_version": "",
    "driver_is_open": False,
    "container": False,
    "hypervisor": "",
    "product": "",
    "cpu_vendor": "GenuineIntel",
    "numa_nodes": 1,
    "cpu_governors": {},
    "memory_available_bytes": 1 << 36,
    "memory_held_bytes": 1 << 33,
    "huge_pages": ABSENT,
    "locked_memory_limit_bytes": None,
    "home": "/home/user",
    "mounts": ABSENT,
    "memory_total_bytes": 1 << 37,
    "memory_by_numa_bytes": {},
    "swap_used_bytes": 0,
    "clock_synchronized": ABSENT,
    "kernel_options": [],
    "kernel_log": ABSENT,
    "uptime_s": 864000.0,
    "nccl_settings": [],
    "system_nccl": [],
    "torch_stack": None,
    "rdma_ports": [],
    "rdma_devices": {},
    "cards_without_rdma": {},
    "idle_cards": [],
    "nvme_drives": [],
    "parts": [],
    "hidden_parts": "",
    "neighbors": ABSENT,
    "no_pcie_link": [],
    "iommu_groups": 0,
    "modules": [],
    "container_libraries": {},
    "container_settings": {},
    "programs": [],
    "tool_versions": {},
    "has_command_queues": False,
    "memory_only_numa_nodes": 0,
}
BY_NAME = {
    "ports",
    "widths",
    "generations",
    "pci_ids",
    "bridges",
    "acs_control",
    "ats_enabled",
    "aer_errors",
    "iommu_domains",
    "kernel_settings",
    "module_parameters",
    "driver_parameters",
    "filesystems",
    "files",
    "pci_answers",
    "pci_drivers",
    "numa_node_of",
    "interface_gbps",
}
HOST_KEYS = set(DEFAULTS) | BY_NAME


class FakeHost:
    """Implements ``check.Host``."""

    def __init__(self, says: Mapping[str, Any]) -> None:
        self._says = says

    def pci_gpus(self) -> list[str]:
        return list(self._say("pci_gpus"))

    def nvswitches(self) -> list[str]:
        return list(self._say("nvswitches"))

    def pci_answers(self, pci_address: str) -> bool:
        answer = self._says.get("pci_answers", {}).get(pci_address, True)
        if isinstance(answer, dict):
            raise CouldNotMeasure(str(answer["error"]))
        return bool(answer)

    def fabric_manager_runs(self) -> bool | None:
        value = self._say("fabric_manager_runs")
        return None if value is None else bool(value)

    def mps_runs(self) -> bool | None:
        value = self._say("mps_runs")
        return None if value is None else bool(value)

    def imex(self) -> Imex:
        return Imex(**self._say("imex"))

    def driver_version(self) -> str:
        return str(self._say("driver_version"))

    def driver_is_open(self) -> bool:
        return bool(self._say("driver_is_open"))

    def pcie_port_width_max(self, pci_address: str) -> int:
        return int(self._of("ports", pci_address)["width_max"])

    def pcie_port_generation_max(self, pci_address: str) -> int:
        return int(self._of("ports", pci_address)["generation_max"])

    def pcie_widths(self, pci_address: str) -> tuple[int, int]:
        now, most = self._of("widths", pci_address)
        return int(now), int(most)

    def pcie_generations(self, pci_address: str) -> tuple[int, int]:
        given = self._says.get("generations", {}).get(pci_address, (4, 4))
        now, most = _value(pci_address, given)
        return int(now), int(most)

    def has_pcie_link(self, pci_address: str) -> bool:
        return pci_address not in self._say("no_pcie_link")

    def pci_ids(self, pci_address: str) -> str:
        return str(self._says.get("pci_ids", {}).get(pci_address, ""))

    def nvme_drives(self) -> list[NvmeDrive]:
        return [NvmeDrive(**{"state": "live", **says}) for says in self._say("nvme_drives")]

    def parts(self) -> list[Part]:
        return [Part(**says) for says in self._say("parts")]

    def hidden_parts(self) -> str:
        return str(self._say("hidden_parts"))

    def neighbors(self) -> list[Neighbor]:
        return [Neighbor(**says) for says in self._say("neighbors")]

    def bridges_above(self, pci_address: str) -> list[str]:
        return list(self._says.get("bridges", {}).get(pci_address, []))

    def numa_node(self, pci_address: str) -> int | None:
        node = self._says.get("numa_node_of", {}).get(pci_address)
        return None if node is None else int(node)

    def rdma_devices(self) -> dict[str, str]:
        return dict(self._say("rdma_devices"))

    def cards_without_rdma(self) -> dict[str, str]:
        return dict(self._say("cards_without_rdma"))

    def is_idle(self, pci_address: str) -> bool:
        return pci_address in self._say("idle_cards")

    def acs_control(self, pci_address: str) -> int | None:
        value = self._of("acs_control", pci_address)
        return None if value is None else int(value, 16)

    def ats_enabled(self, pci_address: str) -> bool | None:
        value = self._of("ats_enabled", pci_address)
        return None if value is None else bool(value)

    def has_command_queues(self) -> bool:
        return bool(self._say("has_command_queues"))

    def memory_only_numa_nodes(self) -> int:
        return int(self._say("memory_only_numa_nodes"))

    def aer_errors(self, pci_address: str) -> dict[str, int]:
        return dict(self._of("aer_errors", pci_address))

    def iommu_groups(self) -> int:
        return int(self._say("iommu_groups"))

    def iommu_domain(self, pci_address: str) -> str:
        return str(self._of("iommu_domains", pci_address))

    def in_container(self) -> bool:
        return bool(self._say("container"))

    def hypervisor(self) -> str:
        return str(self._say("hypervisor"))

    def product(self) -> str:
        return str(self._say("product"))

    def cpu_vendor(self) -> str:
        return str(self._say("cpu_vendor"))

    def numa_nodes(self) -> int:
        return int(self._say("numa_nodes"))

    def cpu_governors(self) -> dict[str, int]:
        return dict(self._say("cpu_governors"))

    def memory_available_bytes(self) -> int:
        return int(self._say("memory_available_bytes"))

    def memory_held_bytes(self) -> int:
        return int(self._say("memory_held_bytes"))

    def huge_pages(self) -> HugePages:
        return HugePages(**self._say("huge_pages"))

    def locked_memory_limit_bytes(self) -> int | None:
        value = self._say("locked_memory_limit_bytes")
        return None if value is None else int(value)

    def filesystem(self, path: str) -> Filesystem:
        return Filesystem(**self._of("filesystems", path))

    def mounts(self) -> list[Mount]:
        return [
            Mount(**{**each, "options": tuple(each["options"])}) for each in self._say("mounts")
        ]

    def memory_total_bytes(self) -> int:
        return int(self._say("memory_total_bytes"))

    def memory_by_numa_bytes(self) -> dict[int, int]:
        return {
            int(number): int(size) for number, size in self._say("memory_by_numa_bytes").items()
        }

    def swap_used_bytes(self) -> int:
        return int(self._say("swap_used_bytes"))

    def pci_driver(self, pci_address: str) -> str:
        return str(self._says.get("pci_drivers", {}).get(pci_address, "nvidia"))

    def home(self) -> str:
        return str(self._say("home"))

    def uptime_s(self) -> float:
        return float(self._say("uptime_s"))

    def clock_synchronized(self) -> bool:
        return bool(self._say("clock_synchronized"))

    def kernel_options(self) -> list[str]:
        return list(self._say("kernel_options"))

    def kernel_setting(self, name: str) -> str:
        return str(self._of("kernel_settings", name))

    def has_module(self, name: str) -> bool:
        return name in self._say("modules")

    def module_parameter(self, module: str, name: str) -> str:
        return str(self._says.get("module_parameters", {}).get(f"{module}.{name}", ""))

    def driver_parameter(self, name: str) -> str:
        if "driver_parameters" not in self._says:
            raise CouldNotMeasure("driver parameters: not there")
        return str(self._says["driver_parameters"].get(name, ""))

    def kernel_log(self, words: Sequence[str]) -> KernelLog:
        log = self._say("kernel_log")
        messages = (KernelMessage(**message) for message in log["messages"])
        wanted = (m for m in messages if any(word in m.text for word in words))
        return KernelLog(tuple(wanted), log["complete"], log.get("reach_s", self.uptime_s()))

    def nccl_settings(self) -> list[NcclSetting]:
        return [NcclSetting(**setting) for setting in self._say("nccl_settings")]

    def system_nccl(self) -> list[str]:
        return list(self._say("system_nccl"))

    def tool_versions(self) -> dict[str, list[str]]:
        return {tool: list(versions) for tool, versions in self._say("tool_versions").items()}

    def file_bytes(self, path: str) -> int | None:
        size = _value(path, self._says.get("files", {}).get(path))
        return None if size is None else int(size)

    def container_libraries(self) -> dict[str, list[str]]:
        return {name: list(paths) for name, paths in self._say("container_libraries").items()}

    def container_settings(self, runtime: str) -> ContainerSettings | None:
        says = self._say("container_settings").get(runtime)
        return None if says is None else ContainerSettings(**says)

    def has_program(self, name: str) -> bool:
        return name in self._say("programs")

    def torch_stack(self, python: str) -> TorchStack | None:  # noqa: ARG002
        says = self._say("torch_stack")
        return None if says is None else TorchStack(**says)

    def interface_gbps(self, name: str) -> float | None:
        rate = self._says.get("interface_gbps", {}).get(name)
        return None if rate is None else float(rate)

    def rdma_ports(self) -> list[RdmaPort]:
        return [_port(**port) for port in self._say("rdma_ports")]

    def _say(self, key: str) -> Any:
        return _value(key, self._says.get(key, DEFAULTS[key]))

    def _of(self, key: str, name: str) -> Any:
        return _value(name, self._says.get(key, {}).get(name, ABSENT))


def _value(name: str, value: Any) -> Any:
    if isinstance(value, dict) and set(value) == {"error"}:
        raise CouldNotMeasure(f"{name}: {value['error']}")
    return value


def _port(
    gids: Sequence[Mapping[str, Any]] = (), pkeys: Sequence[str] = ("0xffff",), **rest: Any
) -> RdmaPort:
    ordinary = {
        "driver": "mlx5_core",
        "firmware": "28.39.1002",
        "link_layer": "InfiniBand",
        "state": "ACTIVE",
        "physical_state": "LinkUp",
        "rate_gbps": 400.0,
        "lanes": 4,
        "counters": {},
    }
    return RdmaPort(
        **{**ordinary, **rest},
        gids=tuple(Gid(**gid) for gid in gids),
        pkeys=tuple(int(key, 16) for key in pkeys),
    )
