"""pcie_p2p: kernel parameters, and access control on the bridges above GPUs and RDMA cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hwcheck.state.asserts import NotMeasuredError, ask, asserts
from hwcheck.state.node import NVIDIA, pci_devices, read
from hwcheck.state.test_rdma import MELLANOX, NETWORK, has_rdma

GPU = ("0x0300", "0x0302")
REDIRECT_BITS = 0x0004 | 0x0008 | 0x0020
"""Request redirect, completion redirect, egress control (PCI Express Base Specification, ACS)."""
NO_CAPABILITY = "Extended Capability"

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
    given = ask(host, "cat /proc/cmdline").split()
    accepted = {"iommu=pt"} if wanted == "passthrough" else {"intel_iommu=off", "amd_iommu=off"}
    assert accepted & set(given), f"the kernel runs without {' or '.join(sorted(accepted))}"


@asserts("pcie_p2p_kernel_parameters", each=True)
def test_kernel_parameter(host: Any, wanted: str) -> None:
    """The running kernel was started with the parameter."""
    assert wanted in ask(host, "cat /proc/cmdline").split(), f"the kernel runs without {wanted}"


@asserts("pcie_p2p_acs_redirect")
def test_acs_redirect(host: Any) -> None:
    """No bridge above a GPU or an RDMA card redirects what they send each other."""
    devices = [*pci_devices(host, NVIDIA, GPU), *pci_devices(host, MELLANOX, NETWORK)]
    bridges = dict.fromkeys(bridge for device in devices for bridge in bridges_above(host, device))
    redirecting = [bridge for bridge in bridges if control(host, bridge) & REDIRECT_BITS]
    assert not redirecting, f"{', '.join(redirecting)} redirect traffic between devices"


def bridges_above(host: Any, device: str) -> list[str]:
    """Return the addresses of the bridges between a device and the root."""
    path = ask(host, "readlink -f %s", f"/sys/bus/pci/devices/{device}")
    return [part for part in path.split("/")[:-1] if part.count(":") == 2]


def control(host: Any, bridge: str) -> int:
    """Return a bridge's access control register; 0 where it has none. Needs root and setpci."""
    done = host.run("setpci -s %s ECAP_ACS+6.w", bridge)
    if done.succeeded:
        return int(done.stdout.strip(), 16)
    if NO_CAPABILITY in done.stderr:
        return 0
    raise NotMeasuredError(f"setpci: {(done.stderr.strip().splitlines() or ['failed'])[0]}")
