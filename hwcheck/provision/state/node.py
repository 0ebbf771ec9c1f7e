"""What assertions of several roles read on a node."""

from __future__ import annotations

from typing import Any

import pytest

from hwcheck.provision.state.asserts import NotMeasuredError, ask

ULIMITS = {
    "core": "c",
    "cpu": "t",
    "data": "d",
    "fsize": "f",
    "memlock": "l",
    "nofile": "n",
    "nproc": "u",
    "rss": "m",
    "sigpending": "i",
    "stack": "s",
}
"""Items of limits.conf(5) and bash's letter for each, in the same units."""
ORDINARY_USER = "nobody"
"""Stands for everybody: limits of ``*`` do not count for root."""

AT_BOOT = ("enabled", "static", "alias", "generated")
"""States of a unit that something starts at boot (systemctl(1)); udev starts a static one.

What is enabled in /run (``enabled-runtime``) is forgotten by then.
"""

NVIDIA = "0x10de"
MELLANOX = "0x15b3"
NETWORK = ("0x0200", "0x0207")
"""PCI classes: Ethernet, InfiniBand."""


def read(host: Any, path: str) -> str | None:
    """Return a file of the node without its last newline; None where there is none."""
    done = host.run("cat %s", path)
    return str(done.stdout).strip() if done.succeeded else None


def need_gpu(host: Any, *, when: bool = True) -> None:
    """Skip the assertion on a node without an NVIDIA GPU on its PCI bus."""
    if when and not pci_devices(host, NVIDIA, ("0x0300", "0x0302")):
        pytest.skip("no NVIDIA GPU on the PCI bus")


def has_rdma(host: Any) -> bool:
    """Return whether the node has an RDMA card, also one whose driver is missing."""
    devices = host.run("ls /sys/class/infiniband 2>/dev/null").stdout.split()
    return bool(devices or pci_devices(host, MELLANOX, NETWORK))


def pci_devices(host: Any, vendor: str, classes: tuple[str, ...]) -> list[str]:
    """Return the addresses of PCI devices of a vendor and of classes (``0x0302``)."""
    listing = "cd /sys/bus/pci/devices 2>/dev/null && grep -H . */vendor */class"
    facts: dict[str, dict[str, str]] = {}
    for line in str(host.run(listing).stdout).splitlines():
        path, _, value = line.partition(":0x")
        address, _, name = path.rpartition("/")
        facts.setdefault(address, {})[name] = "0x" + value
    return [
        address
        for address, device in facts.items()
        if device.get("vendor") == vendor and device.get("class", "").startswith(classes)
    ]


def login_limit(host: Any, domain: str, item: str, kind: str) -> str:
    """Return the ``soft`` or ``hard`` limit that a login of this domain of limits.conf gets.

    Needs root and bash. Raises NotMeasuredError where nobody can be logged in.
    """
    if domain.startswith(("@", "%")):
        pytest.skip(f"{domain} is a group: which user is in it cannot be told")
    if item not in ULIMITS:
        raise NotMeasuredError(f"{item}: no shell shows this limit")
    user = ORDINARY_USER if domain == "*" else domain
    show = f"ulimit -{kind[0].upper()}{ULIMITS[item]}"
    return ask(host, "su -s /bin/bash -c %s %s", show, user)


def daemon(host: Any, unit: str, *, on: bool) -> str:
    """Return what is wrong with a service that is to be ``on``, or off; empty where nothing is.

    Raises NotMeasuredError on a node without systemd.
    """
    if not host.file("/run/systemd/system").is_directory:
        raise NotMeasuredError("the node does not run systemd")
    done = host.run("systemctl show --property=ActiveState,UnitFileState %s", unit)
    properties = dict(line.split("=", 1) for line in str(done.stdout).splitlines() if "=" in line)
    active = properties.get("ActiveState") == "active"
    enabled = properties.get("UnitFileState") in AT_BOOT
    if on and not active:
        return f"{unit} is not running"
    if on and not enabled:
        return f"{unit} is not enabled for the next boot"
    if not on and active:
        return f"{unit} runs"
    return f"{unit} is enabled for the next boot" if not on and enabled else ""
