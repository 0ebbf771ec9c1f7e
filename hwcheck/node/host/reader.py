"""The one reader of ``/proc``, ``/sys`` and the kernel log, put together from its parts.

Every path is read below a root folder, which is ``/`` on a real node.
"""

from __future__ import annotations

import os
import re
from typing import Optional

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.reasons import NO_PERMISSION
from hwcheck.node.host.containers import ContainerReader
from hwcheck.node.host.imex import ImexReader
from hwcheck.node.host.log import LogReader
from hwcheck.node.host.nccl import NcclReader
from hwcheck.node.host.parts import PartsReader
from hwcheck.node.host.software import SoftwareReader
from hwcheck.node.host.system import SystemReader

JOB_PROCESSES = ("slurmstepd", "sge_shepherd")
"""Processes that exist once per job on a node and at no other time (see scheduler_job)."""
FIRST_PID_NAMESPACE = "pid:[%d]" % 0xEFFFFFFC


class NodeHost(
    ContainerReader, ImexReader, NcclReader, PartsReader, SoftwareReader, SystemReader, LogReader
):
    """``/proc``, ``/sys`` and the kernel log as a check sees them: each public method is a reading.

    It raises CouldNotMeasure where it says so and where its file cannot be read. An absent file
    means what its absence says, never an error.
    """

    def driver_version(self) -> str:
        """Version of the loaded NVIDIA kernel module; empty when none is loaded."""
        text = self._read("proc/driver/nvidia/version")
        match = re.search(r"Kernel Module\b.*?\s(\d+(?:\.\d+)+)\s", text)
        return match.group(1) if match else self._read("sys/module/nvidia/version").strip()

    def driver_is_open(self) -> bool:
        """Whether the loaded NVIDIA kernel module is the open one."""
        return "Open Kernel Module" in self._read("proc/driver/nvidia/version")

    def driver_parameter(self, name: str) -> str:
        """Value of a parameter of the NVIDIA kernel module (``NVreg_`` left out); empty: not set.

        Raises CouldNotMeasure where the driver shows none.
        """
        text = self._read("proc/driver/nvidia/params")
        if not text:
            words = "/proc/driver/nvidia/params cannot be read"
            raise self._unread("proc/driver/nvidia/params", words)
        match = re.search(r"^%s: (\S+)$" % re.escape(name), text, re.MULTILINE)
        return match.group(1) if match else ""

    def in_container(self) -> bool:
        """Whether this is a container, whose bus shows devices that it may not use."""
        # Older cgroups name the runtime, and others set ``container=`` for process 1
        # (https://systemd.io/CONTAINER_INTERFACE); Docker and podman leave a file. A virtual
        # machine whose disk was made from a container's image still has that file.
        if self._is_contained("1"):
            return True
        variables = self._read("proc/1/environ").split("\0")
        if any(variable.startswith("container=") for variable in variables):
            return True
        marked = any(self._exists(path) for path in (".dockerenv", "run/.containerenv"))
        return marked and not self._shares_all_with_init()

    def _shares_all_with_init(self) -> bool:
        """Whether the machine's own process 1 has the mounts of this process.

        The kernel's first PID namespace has a fixed number (PROC_PID_INIT_INO,
        include/linux/proc_ns.h), and no mount of another namespace has the id of one of this
        (proc_pid_mountinfo(5)).
        """
        ours, of_init = (
            self._read("proc/%s/mountinfo" % process).split(" ", 1)[0] for process in ("self", "1")
        )
        return self._link("proc/self/ns/pid") == FIRST_PID_NAMESPACE and ours == of_init != ""

    def scheduler_job(self) -> str:
        """Return the process of a scheduler's job on this node, or an empty text.

        Slurm runs one ``slurmstepd`` per job step, and Grid Engine one ``sge_shepherd`` per job
        (slurmstepd(8), sge_shepherd(8)). With cgroup v2, Slurm also keeps a ``slurmstepd
        infinity`` that belongs to no job (https://slurm.schedmd.com/cgroup_v2.html). PBS and LSF
        run jobs under daemons that are always there, so their jobs show by GPU processes only.
        The job of Slurm that this process is part of (SLURM_JOB_ID) is not somebody else's; what
        it runs on the GPUs shows by GPU processes. Raises CouldNotMeasure where the kernel shows
        only one's own processes.
        """
        of_this_job = "slurmstepd: [%s." % os.environ.get("SLURM_JOB_ID", "")
        for pid, name in self._processes():
            if name not in JOB_PROCESSES:
                continue
            arguments = self._read("proc/%s/cmdline" % pid).split("\0")
            if arguments[1:2] != ["infinity"] and not arguments[0].startswith(of_this_job):
                return "%s (pid %s)" % (name, pid)
        if self._exists("proc/self") and not self._shows_others():
            raise CouldNotMeasure(
                "/proc hides the processes of others (hidepid), so a scheduler's job may run "
                "unseen; run as root",
                NO_PERMISSION,
            )
        return ""

    def fabric_manager_runs(self) -> Optional[bool]:
        """Whether the fabric manager runs; None where processes of others are hidden."""
        return self._runs("nv-fabricmanage")

    def mps_runs(self) -> Optional[bool]:
        """Whether the Multi-Process Service runs; None where processes of others are hidden."""
        return self._runs("nvidia-cuda-mps")

    def _runs(self, process: str) -> Optional[bool]:
        names = [name for _, name in self._processes()]
        return process in names if self._shows_others() else None
