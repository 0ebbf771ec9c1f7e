"""The one reader of ``/proc`` and ``/sys``.

Every path is read below a root folder, which is ``/`` on a real node.
"""

from __future__ import annotations

import os
import re
from typing import List, Optional

from hwcheck.node.check import CouldNotMeasure

NVIDIA_VENDOR = "0x10de"
GPU_CLASSES = ("0x0300", "0x0302")
"""VGA compatible and 3D controllers (PCI Code and ID Assignment Specification, base class 03h)."""

GENERATION_BY_GTS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""PCIe generation by transfer rate (PCI Express Base Specification)."""

JOB_PROCESSES = ("slurmstepd", "sge_shepherd")
"""Processes that exist once per job on a node and at no other time (see scheduler_job)."""

CONTAINER_CGROUPS = ("docker", "kubepods", "containerd", "libpod", "lxc")


class HostReader:
    """Implements ``check.Host``. An absent file means what its absence says, never an error."""

    def __init__(self, root: str = "/") -> None:
        self._root = os.path.realpath(root)

    def pci_gpus(self) -> List[str]:
        """See ``check.Host``. Virtual functions of a GPU are not counted."""
        found = []
        for address in self._list("sys/bus/pci/devices"):
            device = "sys/bus/pci/devices/" + address
            if self._read(device + "/vendor").strip() != NVIDIA_VENDOR:
                continue
            is_gpu = self._read(device + "/class").startswith(GPU_CLASSES)
            if is_gpu and not os.path.lexists(self._path(device + "/physfn")):
                found.append(address)
        return found

    def driver_version(self) -> str:
        """See ``check.Host``."""
        text = self._read("proc/driver/nvidia/version")
        match = re.search(r"Kernel Module\b.*?\s(\d+(?:\.\d+)+)\s", text)
        return match.group(1) if match else self._read("sys/module/nvidia/version").strip()

    def pcie_port_width_max(self, pci_address: str) -> int:
        """See ``check.Host``."""
        text = self._port(pci_address, "max_link_width")
        if not text.isdigit() or not 1 <= int(text) <= 32:
            raise CouldNotMeasure("the port above %s says width %r" % (pci_address, text[:40]))
        return int(text)

    def pcie_port_generation_max(self, pci_address: str) -> int:
        """See ``check.Host``."""
        text = self._port(pci_address, "max_link_speed")
        match = re.match(r"(\d+(?:\.\d+)?) GT/s", text)
        generation = GENERATION_BY_GTS.get(float(match.group(1))) if match else None
        if generation is None:
            raise CouldNotMeasure("the port above %s says speed %r" % (pci_address, text[:40]))
        return generation

    def in_container(self) -> bool:
        """See ``check.Host``.

        Docker and podman leave a file, older cgroups name the runtime, and others set
        ``container=`` for process 1 (https://systemd.io/CONTAINER_INTERFACE).
        """
        if any(self._exists(path) for path in (".dockerenv", "run/.containerenv")):
            return True
        if any(name in self._read("proc/1/cgroup") for name in CONTAINER_CGROUPS):
            return True
        variables = self._read("proc/1/environ").split("\0")
        return any(variable.startswith("container=") for variable in variables)

    def memory_available_bytes(self) -> int:
        """See ``check.Host``."""
        match = re.search(r"^MemAvailable:\s+(\d+) kB", self._read("proc/meminfo"), re.MULTILINE)
        if not match:
            raise CouldNotMeasure("no MemAvailable in /proc/meminfo")
        return int(match.group(1)) * 1024

    def scheduler_job(self) -> str:
        """Return the process of a scheduler's job on this node, or an empty text.

        Slurm runs one ``slurmstepd`` per job step, and Grid Engine one ``sge_shepherd`` per job
        (slurmstepd(8), sge_shepherd(8)). With cgroup v2, Slurm also keeps a ``slurmstepd
        infinity`` that belongs to no job (https://slurm.schedmd.com/cgroup_v2.html). PBS and LSF
        run jobs under daemons that are always there, so their jobs show by GPU processes only.
        """
        for pid in self._list("proc"):
            if not pid.isdigit():
                continue
            name = self._read("proc/%s/comm" % pid).strip()
            if name not in JOB_PROCESSES:
                continue
            arguments = self._read("proc/%s/cmdline" % pid).split("\0")
            if arguments[1:2] != ["infinity"]:
                return "%s (pid %s)" % (name, pid)
        return ""

    def _port(self, pci_address: str, attribute: str) -> str:
        device = os.path.realpath(self._path("sys/bus/pci/devices/" + pci_address))
        port = os.path.dirname(device)
        inside = os.path.commonpath([self._root, port]) == self._root
        text = _contents(os.path.join(port, attribute)) if inside else None
        if text is None:
            raise CouldNotMeasure("no port above %s that gives %s" % (pci_address, attribute))
        return text.strip()

    def _path(self, path: str) -> str:
        return os.path.join(self._root, path)

    def _exists(self, path: str) -> bool:
        return os.path.exists(self._path(path))

    def _list(self, path: str) -> List[str]:
        try:
            return sorted(os.listdir(self._path(path)))
        except OSError:
            return []

    def _read(self, path: str) -> str:
        return _contents(self._path(path)) or ""


def _contents(path: str) -> Optional[str]:
    # Processes end and files are root's: what cannot be read is not there for us.
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return stream.read()
    except OSError:
        return None
