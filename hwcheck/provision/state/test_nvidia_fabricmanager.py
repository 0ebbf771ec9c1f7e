"""nvidia_fabricmanager: packages, service and configuration on nodes with NVSwitch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hwcheck.provision.state.asserts import NotMeasuredError, ask, asserts
from hwcheck.provision.state.next_boot import configuration
from hwcheck.provision.state.node import NVIDIA, daemon, pci_devices, read
from hwcheck.provision.state.packages import begins, hold_problem, is_debian, named, problem

BRIDGE = ("0x0680",)
MELLANOX = "0x15b3"
BRIDGED_BOARDS = {"0x2901", "0x3182"}
"""PCI device ids of the GPUs of HGX B200 and B300 (pci.ids), which have such cards."""
UMAD = "/sys/module/ib_umad"
UNNUMBERED_FROM = 590
"""From this branch on the package of the Debian family carries no branch in its name."""

Role = Mapping[str, Any]


def applies(host: Any, role: Role) -> None:
    """Skip the assertions where the role does nothing."""
    where = role["nvidia_fabricmanager_nodes"]
    if where == "none":
        pytest.skip("nvidia_fabricmanager_nodes is none")
    if where == "with_nvswitch" and not pci_devices(host, NVIDIA, BRIDGE) and not bridged(host):
        pytest.skip("no NVSwitch on the PCI bus, nor a card that is the way to one")


@asserts("nvidia_fabricmanager_service")
def test_service(host: Any, wanted: str) -> None:
    """The service runs now and at the next boot."""
    wrong = daemon(host, wanted, on=True)
    assert not wrong, wrong


@asserts("nvidia_fabricmanager_nodes")
def test_package(host: Any, role: Role) -> None:
    """The package is installed, of the version of the driver: it starts with no other."""
    driver = installed(host)
    version = str(role["nvidia_fabricmanager_version"]) or driver
    wrong = problem(host, packages(host, role, version), version)
    assert not wrong, wrong
    assert begins(driver, version), f"driver {driver} is installed, not {version}"


@asserts("nvidia_fabricmanager_nvlsm_packages")
def test_nvlsm(host: Any, wanted: list[str], role: Role) -> None:
    """What Fabric Manager reaches NVSwitches behind a bridge with is there, also after a boot."""
    if not bridged(host):
        pytest.skip("no card is the way to NVSwitches")
    held = wanted if role["nvidia_fabricmanager_hold"] else []
    wrong = problem(host, wanted) or (hold_problem(host, held) if held else "")
    assert not wrong, wrong
    assert host.run("test -d %s", UMAD).succeeded, "ib_umad is not loaded"
    lines = [line.text for line in configuration(host, "modules-load.d")]
    assert "ib_umad" in lines, "no file in modules-load.d loads ib_umad at boot"


@asserts("nvidia_fabricmanager_hold", when=lambda role: bool(role["nvidia_fabricmanager_hold"]))
def test_hold(host: Any, role: Role) -> None:
    """It moves only together with the driver."""
    version = str(role["nvidia_fabricmanager_version"]) or installed(host)
    wrong = hold_problem(host, packages(host, role, version))
    assert not wrong, wrong


@asserts("nvidia_fabricmanager_config", each=True)
def test_config(host: Any, wanted: tuple[str, Any], role: Role) -> None:
    """The configuration that the daemon reads has the line."""
    name, value = wanted
    text = read(host, str(role["nvidia_fabricmanager_config_path"])) or ""
    lines = [line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#"]
    actual = {key.strip(): text.strip() for key, text in lines}.get(name, "not set")
    assert actual == str(value), f"{name} is {actual}, not {value}"


def bridged(host: Any) -> bool:
    """Return whether cards are the way to the NVSwitches; only root may read their mark.

    Raises NotMeasuredError where it cannot be read beside GPUs of a board with such cards.
    """
    cards = pci_devices(host, MELLANOX, ("0x0207",))
    if not cards:
        return False
    files = [f"/sys/bus/pci/devices/{card}/vpd" for card in cards]
    if host.run("grep -qs SW_MNG" + " %s" * len(files), *files).succeeded:
        return True
    gpus = pci_devices(host, NVIDIA, ("0x0302",))
    boards = {read(host, f"/sys/bus/pci/devices/{gpu}/device") for gpu in gpus}
    if BRIDGED_BOARDS & boards and host.run("test -r %s", files[0]).failed:
        raise NotMeasuredError(f"{files[0]}: only root may read if this is the way to NVSwitches")
    return False


def installed(host: Any) -> str:
    """Return the version of the driver for the running kernel; it may wait for a reboot."""
    return ask(host, "modinfo -F version nvidia")


def packages(host: Any, role: Role, version: str) -> list[str]:
    """Return the packages that the role installs for a version."""
    branch = version.partition(".")[0]
    numbered = is_debian(host) and branch.isdecimal() and int(branch) < UNNUMBERED_FROM
    name = f"nvidia-fabricmanager-{branch}" if numbered else "nvidia-fabricmanager"
    return named(role, "nvidia_fabricmanager_packages", [name])
