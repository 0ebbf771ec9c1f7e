"""What a scenario says of a host is what the payload's host reader finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import Gid
from hwcheck.node.host.reader import NodeHost
from tests.lab import kernel_answers
from tests.lab.host_tree import write_host
from tests.lab.scenario import libraries
from tests.lab.tree_writer import ScenarioError

ROOT = Path(__file__).parents[2]
PORT, UP, DOWN, GPU, NIC = (
    "0000:15:01.0",
    "0000:16:00.0",
    "0000:17:00.0",
    "0000:18:00.0",
    "0000:19:00.0",
)
PCI = {PORT: {UP: {DOWN: {GPU: "gpu"}, "0000:17:01.0": {NIC: "nic"}}}}
KINDS = {
    "gpu": {"vendor": 0x10DE, "class": 0x030200, "driver": "nvidia"},
    "nic": {"vendor": 0x15B3, "class": 0x020700, "driver": "mlx5_core"},
}

Present = Callable[..., NodeHost]


@pytest.fixture
def present(tmp_path: Path) -> Present:
    """Write a host and return the payload's reader of it."""

    def write(**host: Any) -> NodeHost:
        write_host(tmp_path, {"pci": PCI, "kinds": KINDS, **host})
        return NodeHost(str(tmp_path), environment={}, home="/home/user")

    return write


def test_devices_and_the_bridges_above_them(present: Present) -> None:
    host = present(kinds={**KINDS, "bridge": {"max_link_width": 8}})
    assert host.pci_gpus() == [GPU]
    assert host.bridges_above(GPU) == [DOWN, UP, PORT]
    assert host.pcie_port_width_max(GPU) == 8
    assert host.pcie_port_generation_max(GPU) == 5


@pytest.mark.parametrize(
    ("own", "gpus", "answers"),
    [({}, [GPU], True), ({"answers": False}, [GPU], False), ({"gone": True}, [], None)],
)
def test_a_device_that_fell_off_the_bus(
    own: Mapping[str, Any], gpus: list[str], answers: bool | None, present: Present
) -> None:
    host = present(devices={GPU: own})
    assert host.pci_gpus() == gpus
    if answers is not None:
        assert host.pci_answers(GPU) is answers


def test_virtual_functions(present: Present) -> None:
    assert present(devices={GPU: {"virtual_function_of": NIC}}).pci_gpus() == []


def test_access_control(present: Present, tmp_path: Path) -> None:
    host = present(devices={UP: {"acs": 0x1D}, DOWN: {"acs": 0}})
    assert [host.acs_control(bridge) for bridge in host.bridges_above(GPU)] == [0, 0x1D, None]
    config = tmp_path / "sys/bus/pci/devices" / UP / "config"
    assert config.stat().st_mode & 0o777 == 0o600
    assert config.stat().st_size == 4096


def test_who_is_not_root_does_not_see_access_control(present: Present) -> None:
    host = present(devices={UP: {"acs": 0x1D, "config_bytes": 64}})
    assert host.pci_answers(UP)
    with pytest.raises(CouldNotMeasure, match="only 64 bytes"):
        host.acs_control(UP)


def test_error_counters(present: Present) -> None:
    aer = {"correctable": {"BadTLP": 7, "RxErr": 2}, "nonfatal": {"UnsupReq": 9}}
    host = present(devices={GPU: {"aer": aer}, NIC: {"aer": None}})
    assert host.aer_errors(GPU) == {"fatal": 0, "nonfatal": 0, "correctable": 9}
    with pytest.raises(CouldNotMeasure, match="no AER counters"):
        host.aer_errors(NIC)


def test_the_iommu(present: Present) -> None:
    host = present(iommu="identity", devices={GPU: {"iommu_domain": "DMA-FQ"}})
    assert host.iommu_groups() == 6
    assert (host.iommu_domain(GPU), host.iommu_domain(NIC)) == ("DMA-FQ", "identity")


def test_an_iommu_that_is_off(present: Present) -> None:
    host = present()
    assert (host.iommu_groups(), host.iommu_domain(GPU)) == (0, "")


def test_numa(present: Present, tmp_path: Path) -> None:
    host = present(numa=[{"cpus": "0-1"}, {"cpus": "2,4-5", "buses": ["0000:15"]}])
    assert host.numa_nodes() == 2
    assert host.numa_node(GPU) == 1
    near = tmp_path / "sys/bus/pci/devices" / GPU / "local_cpulist"
    assert near.read_text() == "2,4-5\n"
    assert host.cpu_governors() == {"intel_pstate performance": 5}


def test_a_bus_that_the_firmware_does_not_place(present: Present) -> None:
    assert present(numa=[{"cpus": "0-1"}, {"cpus": "2-3"}]).numa_node(GPU) is None


@pytest.mark.parametrize(
    ("cpu", "vendor", "hypervisor"),
    [
        ({"vendor": "GenuineIntel"}, "GenuineIntel", ""),
        ({"vendor": "AuthenticAMD", "hypervisor": True}, "AuthenticAMD", "unknown"),
        ({"vendor": "ARM"}, "ARM", ""),
    ],
)
def test_processors(cpu: Mapping[str, Any], vendor: str, hypervisor: str, present: Present) -> None:
    host = present(cpu={"driver": None, **cpu}, numa=[{"cpus": "0-3"}])
    assert (host.cpu_vendor(), host.hypervisor()) == (vendor, hypervisor)
    assert host.cpu_governors() == {}


def test_memory(present: Present) -> None:
    host = present(memory={"total_gib": 8, "available_gib": 4.5, "huge_pages": 1024})
    assert host.memory_available_bytes() == 4.5 * 2**30
    pages = host.huge_pages()
    assert (pages.reserved_bytes, pages.memory_bytes) == (2 * 2**30, 8 * 2**30)
    assert pages.transparent == "madvise"


def test_the_kernel(present: Present) -> None:
    settings = {"kernel/numa_balancing": 1}
    kernel = {"release": "6.1.2", "options": "ro iommu=pt", "settings": settings}
    host = present(kernel={**kernel, "uptime_s": 90, "modules": ["nvidia_peermem"]})
    assert host.kernel_setting("kernel/osrelease") == "6.1.2"
    assert host.kernel_setting("kernel/numa_balancing") == "1"
    assert host.kernel_options()[1:] == ["ro", "iommu=pt"]
    assert host.uptime_s() == 90
    assert host.has_module("nvidia_peermem")
    assert not host.has_module("nv_peer_mem")


@pytest.mark.parametrize("lost", [False, True])
def test_the_kernel_log(lost: bool, present: Present) -> None:
    line = {"at_s": 70, "text": "NVRM: Xid (PCI:0000:18:00): 79, gone"}
    host = present(kernel={"uptime_s": 100, "log": [line], "log_lost": lost})
    log = host.kernel_log(("NVRM",))
    assert [(message.text, message.age_s) for message in log.messages] == [(line["text"], 30)]
    assert log.complete is not lost


def test_a_kernel_log_that_may_not_be_read(present: Present) -> None:
    with pytest.raises(CouldNotMeasure, match="cannot be read"):
        present(kernel={"log": None}).kernel_log(("NVRM",))


@pytest.mark.parametrize("is_open", [False, True])
def test_the_driver(is_open: bool, present: Present) -> None:
    host = present(driver={"version": "570.124.06", "open": is_open})
    assert (host.driver_version(), host.driver_is_open()) == ("570.124.06", is_open)


def test_no_driver(present: Present) -> None:
    assert present().driver_version() == ""


def test_rdma(present: Present) -> None:
    gids = [{"address": "fe80::1", "kind": "RoCE v2"}]
    own = {"pci": NIC, "state": "2: INIT", "gids": gids, "counters": {"link_downed": 3}}
    host = present(rdma={"mlx5_0": own}, rdma_port={"firmware": "28.1", "link_layer": "Ethernet"})
    (port,) = host.rdma_ports()
    assert (port.name, port.driver, port.firmware) == ("mlx5_0/1", "mlx5_core", "28.1")
    assert (port.state, port.rate_gbps, port.lanes) == ("INIT", 400, 4)
    assert port.counters["link_downed"] == 3
    assert port.gids == (Gid(0, "fe80::1", "RoCE v2"),)
    assert host.rdma_devices() == {"mlx5_0": NIC}


def test_a_card_that_is_gone_takes_its_port_along(present: Present) -> None:
    host = present(rdma={"mlx5_0": {"pci": NIC}}, devices={NIC: {"gone": True}})
    assert (host.rdma_ports(), host.rdma_devices()) == ([], {})


def test_the_rest(present: Present) -> None:
    host = present(
        dmi={"vendor": "NVIDIA", "product": "DGX"},
        container=True,
        system_nccl="2.26.2",
        processes={4711: {"name": "slurmstepd", "arguments": ["[7.0]"]}},
        files={"etc/nccl.conf": "NCCL_DEBUG=WARN"},
    )
    assert host.product() == "NVIDIA DGX"
    assert host.in_container()
    assert host.system_nccl() == ["2.26.2"]
    assert host.scheduler_job() == "slurmstepd (pid 4711)"
    assert [(found.name, found.origin) for found in host.nccl_settings()] == [
        ("NCCL_DEBUG", "/etc/nccl.conf")
    ]


@pytest.mark.parametrize(
    ("host", "problem"),
    [
        ({"pcie": {}}, "host: unknown: pcie; known: dmi"),
        ({"cpu": {"govenor": "x"}}, "host: cpu: unknown: govenor"),
        ({"kernel": {"log": [{"time": 1}]}}, "host: kernel: log: unknown: time"),
        ({"kinds": {"gpu": {"width": 8}}}, "host: kinds: gpu: unknown: width"),
        ({"devices": {GPU: {"width": 8}}}, f"host: devices: {GPU}: unknown: width"),
        ({"devices": {"0000:99:00.0": {}}}, "host: devices: not in pci: 0000:99:00.0"),
        ({"devices": {GPU: {"aer": {"fatal": {"Bad": 1}}}}}, "aer: fatal: unknown: Bad"),
        ({"rdma": {"mlx5_0": {"pci": "0000:99:00.0"}}}, "host: rdma: mlx5_0: no PCI device"),
        ({"rdma": {"mlx5_0": {"pci": NIC, "speed": 1}}}, "host: rdma: mlx5_0: unknown: speed"),
        ({"dmi": "DGX"}, "host: dmi: 'DGX' is not a mapping"),
    ],
)
def test_an_unknown_key_is_refused(host: Mapping[str, Any], problem: str, present: Present) -> None:
    with pytest.raises(ScenarioError) as refusal:
        present(**host)
    assert str(refusal.value).startswith(problem)


ASK_THE_KERNEL = """
import json, sys
from hwcheck.node.host import system_calls
shm = system_calls.filesystem(sys.argv[1])
print(json.dumps([
    system_calls.locked_memory_limit_bytes(), system_calls.clock_synchronized(),
    shm.size_bytes, shm.free_bytes, shm.read_only,
]))
"""


def ask_the_kernel(path: Path, **environment: str) -> list[object]:
    done = subprocess.run(
        [sys.executable, "-c", ASK_THE_KERNEL, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    answers: list[object] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("synchronized", [False, True])
def test_what_no_file_holds(synchronized: bool, tmp_path: Path) -> None:
    shm = {"size_gib": 0.0625, "free_gib": 0.03125, "read_only": synchronized}
    limit_kib = None if synchronized else 8192
    kernel_answers.write(
        tmp_path / "kernel",
        tmp_path,
        {
            "memlock_kib": limit_kib,
            "clock_synchronized": synchronized,
            "filesystems": {"/dev/shm": shm},
        },
    )
    library = str(libraries() / kernel_answers.LIBRARY)
    said = ask_the_kernel(
        tmp_path / "dev/shm", LD_PRELOAD=library, HWLAB_KERNEL=str(tmp_path / "kernel")
    )
    limit_bytes = None if synchronized else 8 << 20
    assert said == [limit_bytes, synchronized, 64 << 20, 32 << 20, synchronized]


def test_what_is_not_said_is_asked_of_the_kernel(tmp_path: Path) -> None:
    library = str(libraries() / kernel_answers.LIBRARY)
    (tmp_path / "kernel").write_text("clock 1\n")
    with_it = ask_the_kernel(tmp_path, LD_PRELOAD=library, HWLAB_KERNEL=str(tmp_path / "kernel"))
    without = ask_the_kernel(tmp_path)
    assert with_it[1] is True
    assert (with_it[0], with_it[2]) == (without[0], without[2])
