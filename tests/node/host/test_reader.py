from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.node.host.reader import NodeHost
from tests.node.roots import Root

PROPRIETARY = (
    "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.154.05  Thu Dec 28 15:37:48 UTC 2023\n"
    "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
)
OPEN = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build"
    "  (dvs-builder@U16)  Thu Jan 23 22:50:36 UTC 2025\n"
    "GCC version:  gcc version 13.3.0 (Ubuntu 13.3.0-6ubuntu2~24.04)\n"
)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_an_empty_root_has_nothing_and_is_no_error(root: Root) -> None:
    host = root.host
    assert (host.pci_gpus(), host.driver_version(), host.scheduler_job()) == ([], "", "")
    assert not host.in_container()
    with pytest.raises(CouldNotMeasure, match="MemAvailable"):
        host.memory_available_bytes()


@pytest.mark.parametrize(("text", "version"), [(PROPRIETARY, "535.154.05"), (OPEN, "570.86.15")])
def test_driver_version_in_both_layouts(root: Root, text: str, version: str) -> None:
    root.write("proc/driver/nvidia/version", text)
    assert root.host.driver_version() == version


def test_whether_the_fabric_manager_runs(root: Root) -> None:
    root.write("proc/4711/comm", "nv-fabricmanage\n")
    assert root.host.fabric_manager_runs() is None, "processes of others are hidden"
    (root.path / "proc/1").mkdir()
    assert root.host.fabric_manager_runs() is None, "they are listed and say nothing"
    root.write("proc/1/comm", "systemd\n")
    assert root.host.fabric_manager_runs() is True
    root.write("proc/4711/comm", "nv-hostengine\n")
    assert root.host.fabric_manager_runs() is False


def test_which_driver_is_open(root: Root) -> None:
    assert not root.host.driver_is_open()
    root.write("proc/driver/nvidia/version", PROPRIETARY)
    assert not root.host.driver_is_open()
    root.write("proc/driver/nvidia/version", OPEN)
    assert root.host.driver_is_open()


def test_driver_version_from_the_module_where_proc_hides_it(root: Root) -> None:
    root.write("sys/module/nvidia/version", "570.86.15\n")
    assert root.host.driver_version() == "570.86.15"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (".dockerenv", ""),
        ("run/.containerenv", ""),
        ("proc/1/cgroup", "0::/kubepods.slice/kubepods-burstable.slice\n"),
        ("proc/1/environ", "PATH=/bin\0container=podman\0"),
    ],
)
def test_containers(root: Root, path: str, text: str) -> None:
    root.write(path, text)
    assert root.host.in_container()


def test_a_host_is_no_container(root: Root) -> None:
    root.write("proc/1/cgroup", "0::/init.scope\n")
    root.write("proc/1/environ", "PATH=/bin\0not_container=1\0")
    assert not root.host.in_container()


@pytest.mark.parametrize(
    ("pid_namespace", "mount_of_init", "contained"),
    [(4026531836, 22, False), (4026532201, 22, True), (4026531836, 31, True)],
    ids=["a machine", "a container", "a container that sees the machine's processes"],
)
def test_a_machine_whose_disk_was_made_from_a_container(
    root: Root, pid_namespace: int, mount_of_init: int, contained: bool
) -> None:
    root.write(".dockerenv", "")
    root.write("proc/self/mountinfo", "22 27 0:21 / /proc rw,relatime - proc proc rw\n")
    root.write("proc/1/mountinfo", f"{mount_of_init} 27 0:21 / /proc rw,relatime - proc proc rw\n")
    (root.path / "proc/self/ns").mkdir()
    (root.path / "proc/self/ns/pid").symlink_to(f"pid:[{pid_namespace}]")
    assert root.host.in_container() == contained


@pytest.mark.parametrize(
    ("name", "arguments", "job"),
    [
        ("slurmstepd", "slurmstepd: [614.0]\0", "slurmstepd (pid 77)"),
        ("sge_shepherd", "sge_shepherd-2726\0-bg\0", "sge_shepherd (pid 77)"),
        ("slurmstepd", "/usr/sbin/slurmstepd\0infinity\0", ""),
        ("slurmd", "/usr/sbin/slurmd\0-D\0", ""),
        ("bash", "bash\0slurmstepd\0", ""),
    ],
)
def test_a_schedulers_job(root: Root, name: str, arguments: str, job: str) -> None:
    root.write("proc/1/comm", "systemd\n")
    root.write("proc/77/comm", name + "\n")
    root.write("proc/77/cmdline", arguments)
    root.write("proc/sys/comm", "slurmstepd\n")  # not a process
    assert root.host.scheduler_job() == job


@pytest.mark.parametrize(
    ("of", "job"), [("614", ""), ("61", "slurmstepd (pid 77)"), ("", "slurmstepd (pid 77)")]
)
def test_the_job_that_this_is_a_part_of_is_nobody_elses(
    root: Root, monkeypatch: pytest.MonkeyPatch, of: str, job: str
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", of)
    root.write("proc/1/comm", "systemd\n")
    root.write("proc/77/comm", "slurmstepd\n")
    root.write("proc/77/cmdline", "slurmstepd: [614.0]\0")
    assert root.host.scheduler_job() == job


def test_hidden_processes_are_not_taken_for_none(root: Root) -> None:
    root.write("proc/self/comm", "python3\n")
    with pytest.raises(CouldNotMeasure, match=r"hides .*hidepid.* run as root"):
        root.host.scheduler_job()
    root.write("proc/1/comm", "")  # hidepid=1: listed, and not to be read
    with pytest.raises(CouldNotMeasure, match="hidepid"):
        root.host.scheduler_job()
    root.write("proc/77/comm", "slurmstepd\n")  # of this login itself
    assert root.host.scheduler_job() == "slurmstepd (pid 77)"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a /proc of its own")
@pytest.mark.parametrize("hidden", [True, False])
def test_a_proc_that_hides_processes(hidden: bool) -> None:
    look = (
        "import os\n"
        "from hwcheck.contract.check import CouldNotMeasure\n"
        "from hwcheck.node.host.reader import NodeHost\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "try: print('seen', NodeHost().scheduler_job())\n"
        "except CouldNotMeasure as error: print('not seen:', error)\n"
    )
    # The shell stays process 1 of the namespace, and is root's.
    script = f'mount -t proc -o hidepid={2 * hidden} proc /proc && "$0" -c "$1"; exit $?'
    command = ["unshare", "-m", "-p", "-f", "sh", "-c", script, sys.executable, look]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("not seen: /proc hides" if hidden else "seen"), done.stdout


def test_this_machine_answers() -> None:
    host = NodeHost()
    assert host.memory_available_bytes() > 1 << 20
    assert isinstance(host.pci_gpus(), list)
    assert isinstance(host.in_container(), bool)
    assert host.kernel_setting("kernel/osrelease") == os.uname().release
    assert host.filesystem("/").size_bytes > 0
    assert host.uptime_s() > 0
    assert host.cpu_vendor()


def test_parameters_of_the_driver(root: Root) -> None:
    with pytest.raises(CouldNotMeasure, match="params cannot be read"):
        root.host.driver_parameter("GrdmaPciTopoCheckOverride")
    root.write("proc/driver/nvidia/params", "ModifyDeviceFiles: 1\nGrdmaPciTopoCheckOverride: 1\n")
    assert root.host.driver_parameter("GrdmaPciTopoCheckOverride") == "1"
    assert root.host.driver_parameter("PciTopoCheckOverride") == ""
