"""rdma: packages, peer memory, locked memory of logins and services."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from hwcheck.provision.state.asserts import ask, asserts
from hwcheck.provision.state.next_boot import configuration, enabled_problem, limit_problem
from hwcheck.provision.state.node import has_rdma, login_limit, read
from hwcheck.provision.state.packages import is_debian, named, problem

DEBIAN = ("rdma-core", "ibverbs-providers", "ibverbs-utils", "infiniband-diags", "perftest")
RED_HAT = ("rdma-core", "libibverbs-utils", "infiniband-diags", "perftest")
ROCE = (
    "cd /sys/class/infiniband 2>/dev/null || exit 0; for device in *; do"
    " grep -qx Ethernet $device/ports/1/link_layer 2>/dev/null || continue;"
    " for name in $(ls $device/device/net); do"
    " grep -q vf $device/device/net/$name/phys_port_name 2>/dev/null ||"
    " echo $device $name; done; done"
)
"""Each RoCE device and its network interface, without representors of virtual functions."""
ROCE_SETS = "/usr/local/sbin/hwcheck-roce-qos"
ROCE_UNIT = "hwcheck-roce-qos"

Role = Mapping[str, Any]


def applies(host: Any, role: Role) -> None:
    """Skip the assertions where the role does nothing."""
    where = role["rdma_nodes"]
    if where == "none":
        pytest.skip("rdma_nodes is none")
    if where == "with_rdma" and not has_rdma(host):
        pytest.skip("no RDMA card")


@asserts("rdma_stack")
def test_packages(host: Any, wanted: str, role: Role) -> None:
    """The packages are installed."""
    inbox = DEBIAN if is_debian(host) else RED_HAT
    usual = ("doca-ofed",) if wanted == "ofed" else inbox
    wrong = problem(host, named(role, "rdma_packages", usual))
    assert not wrong, wrong


@asserts("rdma_gpu_memory")
def test_gpu_memory(host: Any, wanted: str) -> None:
    """The module that lets a card reach GPU memory is loaded, or dma-buf can take its place."""
    if host.run("test -d /sys/module/nvidia").failed:
        pytest.skip("no NVIDIA driver is loaded")
    lacks = "" if wanted == "peermem" else _lacks_dma_buf(host)
    if wanted == "peermem" or (wanted == "auto" and lacks):
        loaded = host.run("test -d /sys/module/nvidia_peermem").succeeded
        assert loaded, "; ".join(filter(None, [lacks, "nvidia-peermem is not loaded"]))
        return
    assert not lacks, lacks


@asserts("rdma_gpu_memory")
def test_gpu_memory_at_boot(host: Any, wanted: str) -> None:
    """The next boot loads the module, or leaves it alone."""
    if wanted == "auto" and host.run("modinfo -F license nvidia").failed:
        pytest.skip("no NVIDIA driver is installed")
    lacks = "" if wanted == "peermem" else _lacks_dma_buf(host)
    is_needed = wanted == "peermem" or (wanted == "auto" and bool(lacks))
    names = {line.text.replace("-", "_") for line in configuration(host, "modules-load.d")}
    loads = "nvidia_peermem" in names
    assert loads == is_needed, (
        f"the next boot {'loads' if loads else 'does not load'} nvidia-peermem"
    )


def _lacks_dma_buf(host: Any) -> str:
    """Return what keeps the node from dma-buf; empty where it has it."""
    major, minor = map(int, re.findall(r"\d+", ask(host, "uname -r"))[:2])
    if (major, minor) < (5, 12):
        return f"Linux {major}.{minor} has no dma-buf for RDMA"
    if host.run("modinfo -F license nvidia").stdout.strip() in ("", "NVIDIA"):
        return "dma-buf needs the open kernel modules"
    return ""


@asserts("rdma_memlock_kib")
def test_memlock(host: Any, wanted: str) -> None:
    """A login may lock as much memory."""
    for kind in ("soft", "hard"):
        actual = login_limit(host, "*", "memlock", kind)
        assert actual == str(wanted), (
            f"the {kind} limit memlock of a login is {actual}, not {wanted}"
        )


@asserts("rdma_memlock_kib")
def test_memlock_of_the_next_login(host: Any, wanted: str) -> None:
    """The files give it, to root as well, so that it is not only inherited."""
    for domain in ("*", "root"):
        wrong = limit_problem(host, domain, "memlock", "hard", str(wanted))
        assert not wrong, f"{wrong}, not {wanted}"


@asserts(
    "rdma_memlock_services", each=True, when=lambda role: role["rdma_memlock_kib"] != "unmanaged"
)
def test_service(host: Any, wanted: str, role: Role) -> None:
    """Jobs of the service may lock as much memory."""
    limit = str(role["rdma_memlock_kib"])
    expected = "infinity" if limit == "unlimited" else str(int(limit) * 1024)
    actual = ask(host, "systemctl show --property=LimitMEMLOCK --value %s", wanted)
    assert actual == expected, f"LimitMEMLOCK of {wanted} is {actual}, not {expected}"
    stale = ask(host, "systemctl show --property=NeedDaemonReload --value %s", wanted)
    assert stale == "no", f"the files of {wanted} have changed since systemd read them"


def roce_devices(host: Any, role: Role) -> list[tuple[str, str]]:
    """Return each RoCE device with its network interface, of those that the role is about."""
    pairs = (line.split() for line in ask(host, f"sh -c '{ROCE}'").splitlines())
    chosen = role["rdma_roce_interfaces"]
    chosen_devices = [(device, name) for device, name in pairs if not chosen or name in chosen]
    if not chosen_devices:
        pytest.skip("no RoCE device")
    return chosen_devices


def roce_priority(role: Role) -> int:
    """Return the priority of RoCE's packets: where none is named, the DSCP's upper three bits."""
    priority = int(role["rdma_roce_priority"])
    return priority if priority >= 0 else int(role["rdma_roce_traffic_class"]) // 32


@asserts("rdma_roce_traffic_class")
def test_roce_dscp(host: Any, wanted: int, role: Role) -> None:
    """The cards give the DSCP its priority, which makes them trust DSCP."""
    expected = f"{int(wanted) // 4}:{roce_priority(role)}"
    for _, name in roce_devices(host, role):
        entries = ask(host, "dcb -N app show dev %s dscp-prio", name).split()[1:]
        same = [entry for entry in entries if entry.split(":")[0] == expected.split(":")[0]]
        assert same == [expected], f"{name}: DSCP {' '.join(same) or 'not mapped'}, not {expected}"


@asserts("rdma_roce_traffic_class")
def test_roce_pause(host: Any, role: Role) -> None:
    """Only their priority is paused."""
    expected = [str(roce_priority(role))]
    for _, name in roce_devices(host, role):
        states = ask(host, "dcb pfc show dev %s prio-pfc", name).split()[1:]
        paused = [state.split(":")[0] for state in states if state.endswith(":on")]
        assert paused == expected, (
            f"{name}: PFC pauses priority {', '.join(paused) or 'none'}, not {expected[0]}"
        )


@asserts("rdma_roce_traffic_class")
def test_roce_class(host: Any, wanted: int, role: Role) -> None:
    """Everything is sent with the class."""
    for device, _ in roce_devices(host, role):
        traffic_class = read(host, f"/sys/class/infiniband/{device}/tc/1/traffic_class")
        if traffic_class is None:
            pytest.skip("only DOCA-OFED has a class for all programs")
        assert traffic_class.splitlines()[:1] == [f"Global tclass={wanted}"], (
            f"{device}: traffic class is {traffic_class or 'not set'}, not {wanted}"
        )


@asserts("rdma_roce_traffic_class")
def test_rdma_cm_class(host: Any, wanted: int, role: Role) -> None:
    """What connects by RDMA-CM sends with the class."""
    if not host.exists("cma_roce_tos"):
        pytest.skip("no cma_roce_tos to ask")
    for device, _ in roce_devices(host, role):
        actual = ask(host, "cma_roce_tos -d %s", device)
        assert actual == str(wanted), f"{device}: ToS of RDMA-CM is {actual}, not {wanted}"


@asserts("rdma_roce_traffic_class")
def test_nccl_traffic_class(host: Any, wanted: int) -> None:
    """NCCL sends with the class, where the node's settings say one."""
    given = re.findall(
        r"^\s*NCCL_IB_TC\s*=\s*(\S+)", read(host, "/etc/nccl.conf") or "", re.MULTILINE
    )
    if not given:
        pytest.skip(f"/etc/nccl.conf has no NCCL_IB_TC: jobs have to set NCCL_IB_TC={wanted}")
    assert given[-1] == str(wanted), f"NCCL_IB_TC is {given[-1]} in /etc/nccl.conf, not {wanted}"


@asserts("rdma_roce_traffic_class")
def test_roce_at_boot(host: Any, wanted: int, role: Role) -> None:
    """The next boot sets all of it."""
    wrong = enabled_problem(host, ROCE_UNIT)
    assert not wrong, wrong
    assert host.run("test -x %s", ROCE_SETS).succeeded, f"{ROCE_SETS} is missing"
    lines = ask(host, "systemctl cat %s", ROCE_UNIT).splitlines()
    starts = [line.split()[2:] for line in lines if line.startswith("ExecStart=")]
    expected = [str(wanted), str(roce_priority(role)), *role["rdma_roce_interfaces"]]
    at_boot = starts[-1] if starts else []
    assert at_boot == expected, (
        f"{ROCE_UNIT} sets {' '.join(at_boot)} at boot, not {' '.join(expected)}"
    )
