"""Write a node's ``/proc``, ``/sys`` and ``/dev`` below a folder, from a scenario's ``host`` part.

The keys of ``host`` (all may be left out, and an unknown one is an error):

- ``dmi``: ``vendor``, ``product``
- ``machine``: what its firmware names beside that, by name (``chassis_serial``,
  ``board_serial``, ``bios_version``, ``cpu_model``, ``cpu_serials``); ``null``: no table
- ``programs``: by path, the script of a program that is installed
- ``cpu``: ``vendor`` (GenuineIntel, AuthenticAMD, ARM), ``driver`` and ``governor`` of cpufreq
  (``driver: null``: the kernel does not scale), ``hypervisor`` (the processor's flag)
- ``numa``: a list of nodes, each ``cpus`` (``0-51,104-155``) and ``buses``, the root buses that
  are near it (``"0000:15"``)
- ``mounts``: of /proc/self/mountinfo, by mount point ``kind``, ``source``, ``options``
- ``fstab``: the text of /etc/fstab
- ``memory``: ``total_gib``, ``available_gib``, ``numa_gib`` (a list; all nodes alike unless given),
  ``swap_used_gib``, ``huge_pages``, ``huge_pages_free``, ``huge_page_kib``, ``transparent``
- ``kernel``: ``release``, ``options`` (the command line), ``settings`` (``kernel/numa_balancing``),
  ``uptime_s``, ``modules``, ``log`` (each ``at_s``, ``text``; ``null``: it may not be read),
  ``log_lost`` (its beginning is gone)
- ``driver``: ``version``, ``open`` of the NVIDIA kernel module; ``null``: not loaded
- ``container``: the login is in one
- ``system_nccl``: version of the NCCL that the linker finds
- ``processes``: by process id, ``name`` and ``arguments``
- ``files``: by path, the text of any other file
- ``pci``, ``kinds``, ``devices``, ``iommu``: see ``pci_tree``; ``rdma``, ``rdma_port``: see
  ``rdma_tree``
- ``memlock_kib`` (``null``: unlimited), ``clock_synchronized``, ``filesystems`` (by path,
  ``size_gib``, ``free_gib``, ``read_only``): no file holds these, see ``kernel_answers``
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.lab.pci_tree import PciTree
from tests.lab.rdma_tree import write_rdma
from tests.lab.smbios import structure
from tests.lab.tree_writer import TreeWriter, cpus_of, section

CPUS = "sys/devices/system/cpu"
KIB_PER_GIB = 1 << 20
INTEL_PSTATE = "intel_pstate"

HOST: Mapping[str, Any] = {
    "dmi": {},
    "machine": None,
    "programs": {},
    "cpu": {},
    "numa": [],
    "memory": {},
    "kernel": {},
    "driver": None,
    "container": False,
    "system_nccl": "",
    "processes": {},
    "files": {},
    "pci": {},
    "kinds": {},
    "devices": {},
    "iommu": None,
    "rdma": {},
    "rdma_port": {},
    "mounts": {"/": {}},
    "fstab": "",
    "memlock_kib": None,
    "clock_synchronized": True,
    "filesystems": {},
}
MACHINE: Mapping[str, Any] = {
    "chassis_serial": "",
    "board_serial": "",
    "bios_version": "",
    "cpu_model": "",
    "cpu_serials": [],
}
MOUNT: Mapping[str, Any] = {
    "kind": "ext4",
    "source": "/dev/nvme0n1p2",
    "options": "rw,errors=remount-ro",
}
CPU: Mapping[str, Any] = {
    "vendor": "",
    "driver": INTEL_PSTATE,
    "governor": "performance",
    "hypervisor": False,
}
MEMORY: Mapping[str, Any] = {
    "total_gib": 64,
    "swap_used_gib": 0,
    "numa_gib": None,
    "available_gib": 60,
    "huge_pages": 0,
    "huge_pages_free": 0,
    "huge_page_kib": 2048,
    "transparent": "madvise",
}
KERNEL: Mapping[str, Any] = {
    "release": "6.8.0-60-generic",
    "options": "ro quiet",
    "settings": {},
    "uptime_s": 600_000,
    "modules": [],
    "log": [],
    "log_lost": False,
}


def write_host(root: Path, host: Mapping[str, Any]) -> None:
    """Write the tree. Raises ScenarioError for a key that is not known."""
    write_with(TreeWriter(root), host)


def write_with(tree: TreeWriter, host: Mapping[str, Any]) -> None:
    """Write the tree with this writer. Raises ScenarioError for a key that is not known."""
    says = section(host, "host", HOST)
    _write_firmware(tree, says)
    _write_cpus(tree, says)
    memory = section(says["memory"], "host: memory", MEMORY)
    _write_memory(tree, memory, len(says["numa"]))
    _write_mounts(tree, says)
    kernel = section(says["kernel"], "host: kernel", KERNEL)
    _write_kernel(tree, kernel)
    if kernel["log"] is not None:
        _write_log(tree, kernel)
    if says["driver"] is not None:
        _write_driver(tree, section(says["driver"], "host: driver", {"version": "", "open": False}))
    pci = PciTree(tree, says)
    pci.write()
    write_rdma(tree, pci, says["rdma"], says["rdma_port"])
    _write_logins(tree, says)
    if says["system_nccl"]:
        _write_nccl(tree, says["system_nccl"])
    for path, script in says["programs"].items():
        tree.write(path, f"#!/bin/sh\n{script}", mode=0o755)
    for path, text in says["files"].items():
        tree.write_bytes(path, f"{text}\n".encode() if text else b"")


def _write_firmware(tree: TreeWriter, says: Mapping[str, Any]) -> None:
    dmi = section(says["dmi"], "host: dmi", {"vendor": "", "product": ""})
    for name, text in (("sys_vendor", dmi["vendor"]), ("product_name", dmi["product"])):
        if text:
            tree.write("sys/class/dmi/id/" + name, text)
    if says["machine"] is None:
        return
    its = section(says["machine"], "host: machine", MACHINE)
    maker = {0x04: dmi["vendor"], 0x05: dmi["product"]}
    table = structure(0, 0x18, {0x05: its["bios_version"]}) + structure(1, 0x1B, maker)
    table += structure(2, 0x0F, {**maker, 0x07: its["board_serial"]})
    table += structure(3, 0x15, {0x04: dmi["vendor"], 0x07: its["chassis_serial"]})
    for serial in its["cpu_serials"]:
        table += structure(4, 0x30, {0x10: its["cpu_model"], 0x20: serial}, {0x18: 0x41})
    tree.write_bytes("sys/firmware/dmi/tables/DMI", table + structure(127, 4, {}), mode=0o400)


def _write_cpus(tree: TreeWriter, says: Mapping[str, Any]) -> None:
    cpu = section(says["cpu"], "host: cpu", CPU)
    flags = "fpu sse sse2 avx2" + (" hypervisor" if cpu["hypervisor"] else "")
    if cpu["vendor"] == "ARM":
        lines = "CPU implementer\t: 0x41\nCPU architecture: 8\n"
    else:
        lines = f"vendor_id\t: {cpu['vendor']}\nflags\t\t: {flags}\n"
    blocks = []
    for number, node in enumerate(says["numa"]):
        near = section(node, f"host: numa: {number}", {"cpus": "", "buses": []})
        tree.write(f"sys/devices/system/node/node{number}/cpulist", near["cpus"])
        for index in cpus_of(near["cpus"]):
            blocks.append(f"processor\t: {index}\n{lines}")
            tree.folder(f"{CPUS}/cpu{index}")
            if cpu["driver"]:
                tree.link(f"{CPUS}/cpu{index}/cpufreq", f"{CPUS}/cpufreq/policy{number}")
        if cpu["driver"]:  # the CPUs of a node share one policy
            tree.write(f"{CPUS}/cpufreq/policy{number}/scaling_driver", cpu["driver"])
            tree.write(f"{CPUS}/cpufreq/policy{number}/scaling_governor", cpu["governor"])
    tree.write("proc/cpuinfo", "\n".join(blocks))


def _write_mounts(tree: TreeWriter, says: Mapping[str, Any]) -> None:
    lines = []
    for number, (point, mount) in enumerate(says["mounts"].items(), 25):
        its = section(mount, f"host: mounts: {point}", MOUNT)
        place = f"{number} 1 259:{number} / {point} rw,relatime shared:1"
        lines.append(f"{place} - {its['kind']} {its['source']} {its['options']}")
    tree.write("proc/self/mountinfo", "\n".join(lines))
    tree.write("etc/fstab", says["fstab"])


def _write_memory(tree: TreeWriter, memory: Mapping[str, Any], nodes: int) -> None:
    each_gib = memory["numa_gib"] or [memory["total_gib"] / max(1, nodes)] * nodes
    for number, size_gib in enumerate(each_gib):
        size = f"Node {number} MemTotal:  {int(size_gib * KIB_PER_GIB)} kB"
        tree.write(f"sys/devices/system/node/node{number}/meminfo", size)
    swapped = int(memory["swap_used_gib"] * KIB_PER_GIB)
    tree.write(
        "proc/swaps",
        "Filename\tType\tSize\tUsed\tPriority\n"
        + (f"/swap.img file {2 * swapped} {swapped} -2" if swapped else ""),
    )
    kib = {name: int(memory[name] * KIB_PER_GIB) for name in ("total_gib", "available_gib")}
    tree.write(
        "proc/meminfo",
        f"MemTotal:       {kib['total_gib']} kB\n"
        f"MemAvailable:   {kib['available_gib']} kB\n"
        f"HugePages_Total:{memory['huge_pages']:8}\n"
        f"HugePages_Free: {memory['huge_pages_free']:8}\n"
        f"Hugepagesize:   {memory['huge_page_kib']} kB",
    )
    modes = ("always", "madvise", "never")
    chosen = " ".join(f"[{mode}]" if mode == memory["transparent"] else mode for mode in modes)
    tree.write("sys/kernel/mm/transparent_hugepage/enabled", chosen)


def _write_kernel(tree: TreeWriter, kernel: Mapping[str, Any]) -> None:
    tree.write("proc/cmdline", f"BOOT_IMAGE=/vmlinuz-{kernel['release']} {kernel['options']}")
    tree.write("proc/sys/kernel/osrelease", kernel["release"])
    tree.write("proc/uptime", f"{kernel['uptime_s']:.2f} {kernel['uptime_s']:.2f}")
    for name, value in kernel["settings"].items():
        tree.write("proc/sys/" + name, str(value))
    for module in kernel["modules"]:
        tree.write(f"sys/module/{module}/initstate", "live")


def _write_log(tree: TreeWriter, kernel: Mapping[str, Any]) -> None:
    """Write the buffer as a file of records; a real one can be read by root only."""
    first = {"at_s": 0, "text": f"Linux version {kernel['release']} (gcc)"}
    messages = [] if kernel["log_lost"] else [first]
    messages += kernel["log"]
    start = 90_000 if kernel["log_lost"] else 0
    lines = []
    for number, message in enumerate(messages, start):
        entry = section(message, "host: kernel: log", {"at_s": 0, "text": ""})
        lines.append(f"6,{number},{int(entry['at_s'] * 1e6)},-;{entry['text']}")
    tree.write("dev/kmsg", "\n".join(lines), mode=0o600)


def _write_driver(tree: TreeWriter, driver: Mapping[str, Any]) -> None:
    version = driver["version"]
    kind = "Open Kernel Module for x86_64" if driver["open"] else "x86_64 Kernel Module"
    tree.write(
        "proc/driver/nvidia/version",
        f"NVRM version: NVIDIA UNIX {kind}  {version}  Release Build  (dvs-builder@U16)\n"
        "GCC version:  gcc version 12.3.0",
    )
    tree.write("sys/module/nvidia/version", version)


def _write_nccl(tree: TreeWriter, version: str) -> None:
    """Write the library, empty, and a linker's cache that names it as ldconfig does."""
    library = "usr/lib/libnccl.so.2"
    tree.write(f"{library.removesuffix('.2')}.{version}", "")
    tree.link(library, f"{library.removesuffix('.2')}.{version}")
    names = b"\0".join([b"libnccl.so.2", b"/" + library.encode(), b""])
    tree.write_bytes("etc/ld.so.cache", b"glibc-ld.so.cache1.1" + names)


def _write_logins(tree: TreeWriter, says: Mapping[str, Any]) -> None:
    """Write homes, processes and the marks of a container."""
    tree.folder(pwd.getpwuid(os.getuid()).pw_dir)
    for path in ("tmp", "dev/shm"):
        tree.folder(path)
    tree.write("proc/1/comm", "systemd")
    if says["container"]:
        tree.write(".dockerenv", "")
    if says["clock_synchronized"]:
        tree.write("run/systemd/timesync/synchronized", "")
    for pid, process in says["processes"].items():
        entry = section(process, f"host: processes: {pid}", {"name": "", "arguments": []})
        tree.write(f"proc/{pid}/comm", entry["name"])
        tree.write(f"proc/{pid}/cmdline", "\0".join([entry["name"], *entry["arguments"], ""]))
