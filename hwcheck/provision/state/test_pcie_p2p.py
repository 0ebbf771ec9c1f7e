"""pcie_p2p: kernel parameters, and access control on the bridges above GPUs and RDMA cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hwcheck.provision.state.asserts import NotMeasuredError, ask, asserts
from hwcheck.provision.state.next_boot import enabled_problem, kernel_problem
from hwcheck.provision.state.node import MELLANOX, NETWORK, NVIDIA, has_rdma, pci_devices, read

CLEARS = "/usr/local/sbin/hwcheck-acs-redirect"
GPU = ("0x0300", "0x0302")
REDIRECT_BITS = 0x0004 | 0x0008 | 0x0020
"""Request redirect, completion redirect, egress control (PCI Express Base Specification, ACS)."""
EXTENDED, ACS, GONE = 0x100, 0x000D, 0xFFFFFFFF
"""Where extended capabilities lie, that of access control, and what a device off the bus reads as
(the same)."""

Role = Mapping[str, Any]


def applies(host: Any, role: Role) -> None:
    """Skip the assertions where the role does nothing."""
    if "hypervisor" in (read(host, "/proc/cpuinfo") or "").split():
        pytest.skip("a virtual machine can change neither")
    gpus = len(pci_devices(host, NVIDIA, GPU))
    if role["pcie_p2p_only_with_peers"] and (gpus == 0 or (gpus == 1 and not has_rdma(host))):
        pytest.skip("no GPU that has another one, or an RDMA card, beside it")


@asserts("pcie_p2p_iommu")
def test_iommu(host: Any, wanted: str) -> None:
    """The running kernel was started with the parameter."""
    parameters, accepted = ask(host, "cat /proc/cmdline").split(), iommu(host, wanted)
    assert accepted & set(parameters), f"the kernel runs without {' or '.join(sorted(accepted))}"


@asserts("pcie_p2p_iommu")
def test_iommu_at_boot(host: Any, wanted: str) -> None:
    """The next boot starts every kernel with the parameter."""
    wrong = kernel_problem(host, iommu(host, wanted))
    assert not wrong, wrong


def iommu(host: Any, wanted: str) -> set[str]:
    """Return the kernel parameters of which one is enough."""
    if wanted == "disabled":
        return {"intel_iommu=off", "amd_iommu=off"}
    is_arm = host.run("uname -m").stdout.strip() == "aarch64"
    return {"iommu.passthrough=1"} if is_arm else {"iommu=pt", "iommu.passthrough=1"}


@asserts("pcie_p2p_kernel_parameters", each=True)
def test_kernel_parameter(host: Any, wanted: str) -> None:
    """The running kernel was started with the parameter."""
    assert wanted in ask(host, "cat /proc/cmdline").split(), f"the kernel runs without {wanted}"


@asserts("pcie_p2p_kernel_parameters", each=True)
def test_kernel_parameter_at_boot(host: Any, wanted: str) -> None:
    """The next boot starts every kernel with the parameter."""
    wrong = kernel_problem(host, {wanted})
    assert not wrong, wrong


@asserts("pcie_p2p_acs_redirect")
def test_acs_redirect(host: Any) -> None:
    """No bridge above a GPU or an RDMA card redirects what they send each other."""
    devices = [*pci_devices(host, NVIDIA, GPU), *pci_devices(host, MELLANOX, NETWORK)]
    bridges = dict.fromkeys(bridge for device in devices for bridge in bridges_above(host, device))
    redirecting = [bridge for bridge in bridges if control(host, bridge) & REDIRECT_BITS]
    assert not redirecting, f"{', '.join(redirecting)} redirect traffic between devices"


@asserts("pcie_p2p_acs_redirect")
def test_acs_redirect_at_boot(host: Any) -> None:
    """The next boot clears it again."""
    wrong = enabled_problem(host, "hwcheck-acs-redirect")
    assert not wrong, wrong
    assert host.run("test -x %s", CLEARS).succeeded, f"{CLEARS} is missing"


def bridges_above(host: Any, device: str) -> list[str]:
    """Return the addresses of the bridges between a device and the root."""
    path = ask(host, "readlink -f %s", f"/sys/bus/pci/devices/{device}")
    return [part for part in path.split("/")[:-1] if part.count(":") == 2]


def control(host: Any, bridge: str) -> int:
    """Return a bridge's access control register; 0 where it has none. Needs root."""
    # Other users see 64 bytes, and od fails.
    text = ask(host, "od -An -v -tx1 -j 256 %s", f"/sys/bus/pci/devices/{bridge}/config")
    space, at, visited = bytes.fromhex(text), 0, set()
    while 0 <= at <= len(space) - 8 and at not in visited:
        visited.add(at)
        header = int.from_bytes(space[at : at + 4], "little")
        if header == GONE:
            raise NotMeasuredError(f"{bridge} does not answer")
        if header & 0xFFFF == ACS:
            return int.from_bytes(space[at + 6 : at + 8], "little")
        at = (header >> 20 & 0xFFC) - EXTENDED
    return 0
