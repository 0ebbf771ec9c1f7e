"""What the files of a healthy host could say: its kernel, its PCI devices, its RDMA ports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from tests.lab.host_tree import CPU, KERNEL, MEMORY
from tests.lab.mutation import (
    INVERTED,
    MANY,
    OTHER,
    SAME,
    Change,
    Mutation,
    nested,
    share,
    to,
    value_of,
)
from tests.lab.nvml_keys import lay_over
from tests.lab.pci_tree import BRIDGE, DEVICE
from tests.lab.rdma_tree import COUNTERS, PORT
from tests.lab.scenario import Scenario

HOST: Mapping[str, list[Change]] = {
    "dmi.vendor": OTHER,
    "dmi.product": OTHER,
    "cpu.vendor": to("AuthenticAMD", "GenuineIntel"),
    "cpu.driver": to(None, "acpi-cpufreq"),
    "cpu.governor": to("powersave"),
    "cpu.hypervisor": INVERTED,
    "memory.total_gib": share(50),
    "memory.available_gib": to(1) + share(10),
    "memory.huge_pages": to(2048),
    "memory.transparent": to("never", "always"),
    "kernel.release": OTHER,
    "kernel.options": [
        (option, lambda old, option=option: f"{old} {option}")
        for option in ("nomsi", "pci=noaer", "mitigations=auto", "intel_iommu=on", "amd_iommu=on")
    ],
    "kernel.settings": to({"kernel/numa_balancing": 1}),
    "kernel.uptime_s": to(120),
    "kernel.log": to(None),
    "kernel.log_lost": INVERTED,
    "driver.version": OTHER,
    "driver.open": INVERTED,
    "driver": to(None),
    "container": INVERTED,
    "system_nccl": to("2.18.3"),
    "iommu": to("DMA", "DMA-FQ", "identity", None),
    "memlock_kib": to(64, 8192),
    "clock_synchronized": to(False),
    "numa": [("no buses near", lambda old: [{"cpus": node["cpus"]} for node in old])],
}
DEFAULTS = {"cpu": CPU, "memory": MEMORY, "kernel": KERNEL}
NOT_ON_HOST = {"pci", "kinds", "devices", "rdma", "rdma_port", "processes", "files", "filesystems"}
"""Parts of a host that have changes of their own below."""
LEFT_OUT = {
    "machine": "what was ordered is not declared; faults of h100x8 have it",
    "programs": "answers of programs, whose absence is no fault",
    "mounts": "a fault of a100x8 has it",
    "fstab": "says how mounts are meant, which are not changed",
}
"""Parts of a host that are not changed, and why."""

FILESYSTEM: Mapping[str, list[Change]] = {
    "size_gib": to(0.0625),
    "free_gib": to(0, 0.5),
    "read_only": to(True),
}


def of_host(scenario: Scenario) -> Iterator[Mutation]:
    """Yield every change of what the host's files and its kernel say."""
    yield from _of_host(scenario.host)
    yield from _of_devices(scenario)
    yield from _of_rdma(scenario.host)


def _of_host(host: Mapping[str, Any]) -> Iterator[Mutation]:
    defaults = {"container": False, "iommu": None, "memlock_kib": None, "clock_synchronized": True,
                "system_nccl": ""}  # fmt: skip
    for quantity, changes in HOST.items():
        keys = quantity.split(".")
        if keys[0] == "driver" and host.get("driver") is None:
            continue
        old = value_of({**defaults, **host}, keys)
        if old is None and keys[0] in DEFAULTS and len(keys) == 2:
            old = DEFAULTS[keys[0]][keys[1]]
        if (quantity == "cpu.driver" and old == "intel_pstate") or old != SAME:
            for change, broken in changes:
                value = (
                    broken(old) if old is not None or quantity in ("memlock_kib", "iommu") else SAME
                )
                if value is SAME or value == old:
                    continue
                yield Mutation(f"host.{quantity}", change, "node", host=nested(keys, value))
    modules = list(host.get("kernel", {}).get("modules", ()))
    for module in modules:
        rest = [each for each in modules if each != module]
        yield Mutation(f"host.kernel.modules.{module}", "gone", "node",
                       host={"kernel": {"modules": rest}})  # fmt: skip
    yield Mutation("host.kernel.modules.nouveau", "there", "node",
                   host={"kernel": {"modules": [*modules, "nouveau"]}})  # fmt: skip
    for pid, process in host.get("processes", {}).items():
        name = process["name"]
        processes = {key: of for key, of in host["processes"].items() if key != pid}
        yield Mutation(f"host.processes.{name}", "gone", "node",
                       instead={"processes": processes})  # fmt: skip
    for path in host.get("files", {}):
        files = {key: of for key, of in host["files"].items() if key != path}
        yield Mutation(f"host.files.{path}", "gone", "node", instead={"files": files})
        yield Mutation(f"host.files.{path}", "empty", "node", host={"files": {path: ""}})
    for path in ("/", "/tmp", "/dev/shm"):
        for key, changes in FILESYSTEM.items():
            for change, broken in changes:
                where = {"filesystems": {path: {key: broken(None)}}}
                yield Mutation(f"host.filesystems.{path}.{key}", change, "node", host=where)


# -- PCI devices --------------------------------------------------------------------------------


def bus_of(host: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Return every device by address: its kind, and the address of the port above it."""

    def walk(below: Mapping[str, Any], above: str) -> Iterator[tuple[str, tuple[str, str]]]:
        for address, its in below.items():
            yield address, (its if isinstance(its, str) else BRIDGE, above)
            if not isinstance(its, str):
                yield from walk(its, address)

    return dict(walk(host.get("pci", {}), ""))


def roles(scenario: Scenario) -> dict[str, list[str]]:
    """Return the addresses of the devices by what they are there for."""
    host, bus = scenario.host, bus_of(scenario.host)
    found: dict[str, list[str]] = {}
    nvml = scenario.nvml or {}
    common = nvml.get("gpu", {})
    gpus = [lay_over(common, gpu).get("pci_address", "") for gpu in nvml.get("gpus", ())]
    found["gpu"] = [address for address in gpus if address in bus]
    cards = [
        lay_over(host.get("rdma_port", {}), own)["pci"] for own in host.get("rdma", {}).values()
    ]
    found["card"] = list(dict.fromkeys(cards))
    for address, (kind, _) in bus.items():
        if kind not in (BRIDGE, "gpu") and address not in found["card"] + found["gpu"]:
            found.setdefault(kind, []).append(address)
    for role in ("gpu", "card"):
        ports = dict.fromkeys(bus[address][1] for address in found[role])
        found[f"port of a {role}"] = [port for port in ports if port]
    roots = [_root(address, bus) for address in found["gpu"]]
    uppers = [bus[port][1] for port in found["port of a gpu"] if bus[port][1]]
    found["switch above a gpu"] = [u for u in dict.fromkeys(uppers) if u not in roots]
    found["root port of a gpu"] = [
        root
        for root in dict.fromkeys(roots)
        if root not in [*found["gpu"], *found["port of a gpu"]]
    ]
    return {role: addresses for role, addresses in found.items() if addresses}


def _root(address: str, bus: Mapping[str, tuple[str, str]]) -> str:
    while bus[address][1]:
        address = bus[address][1]
    return address


OF_DEVICE: Mapping[str, list[Change]] = {
    "max_link_width": to(1),
    "max_link_speed": to("2.5 GT/s PCIe"),
    "current_link_width": to(1, 4, 8),
    "current_link_speed": to("2.5 GT/s PCIe"),
    "driver": to("", "vfio-pci"),
    "iommu_domain": to("DMA", "DMA-FQ", "identity"),
    "answers": to(False),
    "gone": to(True),
    "vpd": to(""),
    "acs": to(0x1D),
    "ats": INVERTED,
    "config_bytes": to(64),
    "class": to(0xFF0000),
    "device": to(0xFFFF),
}
AER_TRIED = {"correctable": "BadTLP", "fatal": "DLP", "nonfatal": "CmpltTO"}


def _of_devices(scenario: Scenario) -> Iterator[Mutation]:
    host, bus = scenario.host, bus_of(scenario.host)
    for role, addresses in roles(scenario).items():
        one = addresses[min(3, len(addresses) - 1)]
        for place, which in (("one", [one]), ("all", addresses)):
            if place == "one" and len(addresses) == 1:
                continue
            for key, changes in OF_DEVICE.items():
                if role in (
                    "port of a gpu",
                    "port of a card",
                    "switch above a gpu",
                    "root port of a gpu",
                ) and key in ("gone", "class", "device"):
                    continue
                old = _of_one(host, bus, one, key)
                for change, broken in changes:
                    value = broken(old)
                    lacks = (key == "vpd" and not old) or (key in ("acs", "ats") and old is None)
                    if value is SAME or lacks:
                        continue
                    if key == "current_link_width" and value >= (
                        old or _of_one(host, bus, one, "max_link_width")
                    ):
                        continue
                    where = {"devices": {address: {key: value} for address in which}}
                    yield Mutation(f"host.{role}.{key}", change, place, host=where)
            if role == "gpu":
                where = {"devices": {address: {"driver": "nouveau"} for address in which}}
                yield Mutation(f"host.{role}.driver", "nouveau", place, host=where)
            if _of_one(host, bus, one, "aer") is None:
                continue
            for kind, name in AER_TRIED.items():
                for count in (1, MANY):
                    aer = {"aer": {kind: {name: count}}}
                    where = {"devices": dict.fromkeys(which, aer)}
                    yield Mutation(f"host.{role}.aer.{kind}", str(count), place, host=where)


def _of_one(
    host: Mapping[str, Any], bus: Mapping[str, tuple[str, str]], address: str, key: str
) -> Any:
    own = host.get("devices", {}).get(address) or {}
    of_kind = host.get("kinds", {}).get(bus[address][0]) or {}
    return {**DEVICE, **of_kind, **own}[key]


# -- RDMA ports ---------------------------------------------------------------------------------

OF_PORT: Mapping[str, list[Change]] = {
    "firmware": OTHER,
    "node_type": to("2: switch"),
    "link_layer": to("Ethernet", "InfiniBand"),
    "state": to("1: DOWN", "2: INIT", "3: ARMED"),
    "phys_state": to("2: Polling", "3: Disabled", "6: LinkErrorRecovery"),
    "rate": to("100 Gb/sec (4X EDR)", "10 Gb/sec (4X SDR)", "2.5 Gb/sec (1X SDR)", "unknown"),
    "gids": to([]),
    "interface": to(""),
}


def _of_rdma(host: Mapping[str, Any]) -> Iterator[Mutation]:
    devices = list(host.get("rdma", {}))
    if not devices:
        return
    one = devices[min(3, len(devices) - 1)]
    for place, which in (("one", [one]), ("all", devices)):
        if place == "one" and len(devices) == 1:
            continue
        for key, changes in OF_PORT.items():
            old = {**PORT, **host.get("rdma_port", {}), **host["rdma"][one]}[key]
            for change, broken in changes:
                value = broken(old)
                if value is not SAME and (old or key not in ("gids", "interface")):
                    where = {"rdma": {name: {key: value} for name in which}}
                    yield Mutation(f"host.rdma.{key}", change, place, host=where)
        for counter in COUNTERS:
            if counter.endswith("_data"):
                continue
            for count in (1, 255, MANY):
                where = {"rdma": {name: {"counters": {counter: count}} for name in which}}
                yield Mutation(f"host.rdma.counters.{counter}", str(count), place, host=where)
        rest = {name: own for name, own in host["rdma"].items() if name not in which}
        yield Mutation("host.rdma", "gone", place, instead={"rdma": rest})
        down = {"state": "1: DOWN", "phys_state": "3: Disabled"}
        yield Mutation("host.rdma", "down", place, host={"rdma": dict.fromkeys(which, down)})
