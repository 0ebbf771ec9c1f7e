from __future__ import annotations

import os
from pathlib import Path

import pytest

from hwcheck.node.check import CouldNotMeasure
from hwcheck.node.host import HostReader
from tests.node.roots import Root

GPU = "0000:18:00.0"
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
    with pytest.raises(CouldNotMeasure, match=GPU):
        host.pcie_port_width_max(GPU)


def test_only_nvidia_display_and_3d_controllers_are_gpus(root: Root) -> None:
    root.device("0000:2a:00.0")
    root.device(GPU, kind="0x030000")
    root.device("0000:2b:00.0", kind="0x068000")  # an NVSwitch
    root.device("0000:2c:00.0", kind="0x040300")  # a GPU's audio function
    root.device("0000:2d:00.0", vendor="0x1a03", kind="0x030000")  # a BMC's display
    assert root.host.pci_gpus() == [GPU, "0000:2a:00.0"]


def test_a_virtual_function_is_no_gpu_of_its_own(root: Root) -> None:
    port = root.device(GPU)
    root.device("0000:2a:00.0")
    os.symlink("../../elsewhere", root.path / port / GPU / "physfn")
    assert root.host.pci_gpus() == ["0000:2a:00.0"]


@pytest.mark.parametrize(("text", "version"), [(PROPRIETARY, "535.154.05"), (OPEN, "570.86.15")])
def test_driver_version_in_both_layouts(root: Root, text: str, version: str) -> None:
    root.write("proc/driver/nvidia/version", text)
    assert root.host.driver_version() == version


def test_driver_version_from_the_module_where_proc_hides_it(root: Root) -> None:
    root.write("sys/module/nvidia/version", "570.86.15\n")
    assert root.host.driver_version() == "570.86.15"


def test_the_port_above_a_device(root: Root) -> None:
    port = root.device(GPU)
    root.write(port + "/max_link_width", "8\n")
    root.write(port + "/max_link_speed", "16.0 GT/s PCIe\n")
    root.write(f"{port}/{GPU}/max_link_width", "16\n")  # the device's own is another figure
    assert root.host.pcie_port_width_max(GPU) == 8
    assert root.host.pcie_port_generation_max(GPU) == 4


@pytest.mark.parametrize(
    ("speed", "generation"),
    [("2.5 GT/s PCIe", 1), ("5.0 GT/s PCIe", 2), ("8 GT/s", 3), ("32.0 GT/s PCIe", 5)],
)
def test_generation_by_speed(root: Root, speed: str, generation: int) -> None:
    root.write(root.device(GPU) + "/max_link_speed", speed + "\n")
    assert root.host.pcie_port_generation_max(GPU) == generation


@pytest.mark.parametrize("speed", ["Unknown", "Unknown speed", "", "7.0 GT/s PCIe"])
def test_an_unknown_speed_is_no_measurement(root: Root, speed: str) -> None:
    root.write(root.device(GPU) + "/max_link_speed", speed + "\n")
    with pytest.raises(CouldNotMeasure, match="speed"):
        root.host.pcie_port_generation_max(GPU)


@pytest.mark.parametrize("width", ["0", "255", "", "Unknown"])
def test_an_unknown_width_is_no_measurement(root: Root, width: str) -> None:
    root.write(root.device(GPU) + "/max_link_width", width + "\n")
    with pytest.raises(CouldNotMeasure, match="width"):
        root.host.pcie_port_width_max(GPU)


def test_a_device_outside_the_root_is_not_followed(root: Root, tmp_path: Path) -> None:
    inner = Root(tmp_path / "inner")
    outside = tmp_path / "outside"
    (outside / GPU).mkdir(parents=True)
    (outside / "max_link_width").write_text("16\n")
    devices = inner.path / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    (devices / GPU).symlink_to(outside / GPU)
    with pytest.raises(CouldNotMeasure, match="no port"):
        inner.host.pcie_port_width_max(GPU)


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


def test_memory_is_in_bytes(root: Root) -> None:
    root.write("proc/meminfo", "MemTotal: 900 kB\nMemFree: 1 kB\nMemAvailable:     512 kB\n")
    assert root.host.memory_available_bytes() == 512 * 1024


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


def test_this_machine_answers() -> None:
    host = HostReader()
    assert host.memory_available_bytes() > 1 << 20
    assert isinstance(host.pci_gpus(), list)
    assert isinstance(host.in_container(), bool)
