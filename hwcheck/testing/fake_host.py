"""The host half of a case's node.

A reading of ``node.NodeHost`` is a key of its name, or of that in ``KEYS``. Records
(``hwcheck/contract/facts.py``) are objects, lists of records are lists of objects. What is asked
of something is an object by it: by PCI address, path or name, and ``module_parameters`` by
``module.name``. What is absent is as in ``DEFAULTS``, or else cannot be measured, and so is
``{"error": text}`` in place of any value. What is special:

- ``widths`` and ``generations`` are in use and at most;
- ``ports`` are ``{"width_max", "generation_max"}`` of the port above a device;
- ``no_pcie_link``, ``idle_cards``, ``modules`` and ``programs`` are the lists of those that have
  no link, are idle, are loaded and are there;
- ``acs_control`` and the ``pkeys`` of a port are hexadecimal;
- ``driver_parameters`` that are not there at all cannot be measured;
- ``torch_stack`` is that of every interpreter;
- ``kernel_log`` is ``{"complete", "messages", "reach_s"}``; without the last it reaches back to
  the boot;
- ``nvme_drives`` are live, and ``rdma_ports`` as ``ORDINARY_PORT``, where they do not say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import KernelLog, NvmeDrive, RdmaPort, TorchStack
from hwcheck.node.node import NodeHost
from hwcheck.testing.by_name import by_name, given, readings, shaped

ABSENT = {"error": "not there"}
DEFAULTS: dict[str, Any] = {
    "pci_gpus": [],
    "nvswitches": [],
    "fabric_manager_runs": None,
    "mps_runs": False,
    "driver_version": "",
    "driver_is_open": False,
    "in_container": False,
    "hypervisor": "",
    "product": "",
    "cpu_vendor": "GenuineIntel",
    "numa_nodes": 1,
    "cpu_governors": {},
    "memory_available_bytes": 1 << 36,
    "memory_held_bytes": 1 << 33,
    "locked_memory_limit_bytes": None,
    "home": "/home/user",
    "memory_total_bytes": 1 << 37,
    "memory_by_numa_bytes": {},
    "swap_used_bytes": 0,
    "kernel_options": [],
    "uptime_s": 864000.0,
    "nccl_settings": [],
    "system_nccl": [],
    "torch_stack": None,
    "rdma_ports": [],
    "rdma_devices": {},
    "cards_without_rdma": {},
    "is_idle": [],
    "nvme_drives": [],
    "parts": [],
    "hidden_parts": "",
    "has_pcie_link": [],
    "iommu_groups": 0,
    "has_module": [],
    "container_libraries": {},
    "container_settings": None,
    "has_program": [],
    "tool_versions": {},
    "has_command_queues": False,
    "memory_only_numa_nodes": 0,
    "pci_answers": True,
    "pci_driver": "nvidia",
    "pci_ids": "",
    "pcie_generations": [4, 4],
    "bridges_above": [],
    "numa_node": None,
    "module_parameter": "",
    "driver_parameter": "",
    "file_bytes": None,
    "interface_gbps": None,
}
KEYS = {
    "in_container": "container",
    "numa_node": "numa_node_of",
    "pcie_widths": "widths",
    "pcie_generations": "generations",
    "pcie_port_width_max": "ports",
    "pcie_port_generation_max": "ports",
    "has_pcie_link": "no_pcie_link",
    "is_idle": "idle_cards",
    "bridges_above": "bridges",
    "iommu_domain": "iommu_domains",
    "pci_driver": "pci_drivers",
    "kernel_setting": "kernel_settings",
    "has_module": "modules",
    "module_parameter": "module_parameters",
    "driver_parameter": "driver_parameters",
    "filesystem": "filesystems",
    "file_bytes": "files",
    "has_program": "programs",
}
"""The keys that have another name than their reading."""
HOST_KEYS = {KEYS.get(name, name) for name in readings(NodeHost)}

ORDINARY_PORT = {
    "driver": "mlx5_core",
    "firmware": "28.39.1002",
    "link_layer": "InfiniBand",
    "state": "ACTIVE",
    "physical_state": "LinkUp",
    "rate_gbps": 400.0,
    "lanes": 4,
    "counters": {},
}


@by_name
class FakeHost(NodeHost):
    """A host that says what a case says."""

    def __init__(self, says: Mapping[str, Any]) -> None:
        self._says = says

    def pcie_port_width_max(self, pci_address: str) -> int:
        return int(self._say("pcie_port_width_max", pci_address)["width_max"])

    def pcie_port_generation_max(self, pci_address: str) -> int:
        return int(self._say("pcie_port_generation_max", pci_address)["generation_max"])

    def has_pcie_link(self, pci_address: str) -> bool:
        return pci_address not in self._say("has_pcie_link")

    def is_idle(self, pci_address: str) -> bool:
        return pci_address in self._say("is_idle")

    def has_module(self, name: str) -> bool:
        return name in self._say("has_module")

    def has_program(self, name: str) -> bool:
        return name in self._say("has_program")

    def acs_control(self, pci_address: str) -> int | None:
        value = self._say("acs_control", pci_address)
        return None if value is None else int(value, 16)

    def driver_parameter(self, name: str) -> str:
        if "driver_parameters" not in self._says:
            raise CouldNotMeasure("driver parameters: not there")
        return str(self._say("driver_parameter", name))

    def torch_stack(self, python: str) -> TorchStack | None:  # noqa: ARG002
        stack: TorchStack | None = shaped(TorchStack | None, self._say("torch_stack"))
        return stack

    def kernel_log(self, words: Sequence[str]) -> KernelLog:
        log = {"reach_s": self._say("uptime_s"), **self._say("kernel_log")}
        wanted = [
            message for message in log["messages"] if any(word in message["text"] for word in words)
        ]
        kernel_log: KernelLog = shaped(KernelLog, {**log, "messages": wanted})
        return kernel_log

    def nvme_drives(self) -> list[NvmeDrive]:
        return [NvmeDrive(**{"state": "live", **drive}) for drive in self._say("nvme_drives")]

    def rdma_ports(self) -> list[RdmaPort]:
        return [_port(**port) for port in self._say("rdma_ports")]

    def _say(self, reading: str, *arguments: str) -> Any:
        key, default = KEYS.get(reading, reading), DEFAULTS.get(reading, ABSENT)
        if not arguments:
            return given(key, self._says.get(key, default))
        name = ".".join(arguments)
        return given(name, given(key, self._says.get(key, {})).get(name, default))


def _port(pkeys: Sequence[str] = ("0xffff",), **says: Any) -> RdmaPort:
    keys = [int(key, 16) for key in pkeys]
    port: RdmaPort = shaped(RdmaPort, {**ORDINARY_PORT, **says, "pkeys": keys})
    return port
