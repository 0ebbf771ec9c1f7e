"""rdma: packages, peer memory, locked memory of logins and services."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from hwcheck.provision.state.asserts import ask, asserts
from hwcheck.provision.state.next_boot import configuration, limit_problem
from hwcheck.provision.state.node import login_limit, pci_devices
from hwcheck.provision.state.packages import is_debian, named, problem

MELLANOX = "0x15b3"
NETWORK = ("0x0200", "0x0207")
DEBIAN = ("rdma-core", "ibverbs-providers", "ibverbs-utils", "infiniband-diags", "perftest")
RED_HAT = ("rdma-core", "libibverbs-utils", "infiniband-diags", "perftest")

Role = Mapping[str, Any]


def applies(host: Any, role: Role) -> None:
    """Skip the assertions where the role does nothing."""
    where = role["rdma_nodes"]
    if where == "none":
        pytest.skip("rdma_nodes is none")
    if where == "with_rdma" and not has_rdma(host):
        pytest.skip("no RDMA card")


def has_rdma(host: Any) -> bool:
    """Return whether the node has an RDMA card, also one whose driver is missing."""
    devices = host.run("ls /sys/class/infiniband 2>/dev/null").stdout.split()
    return bool(devices or pci_devices(host, MELLANOX, NETWORK))


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
