"""doca_ofed: the packages of one version, and the modules that the card runs with."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from hwcheck.provision.state.asserts import ask, asserts
from hwcheck.provision.state.next_boot import enabled_problem
from hwcheck.provision.state.node import has_rdma, read
from hwcheck.provision.state.packages import (
    hold_problem,
    named,
    os_release,
    problem,
    repository_problem,
)

Role = Mapping[str, Any]


def applies(host: Any, role: Role) -> None:  # noqa: ARG001
    """Skip the assertions where the role does nothing."""
    if not has_rdma(host):
        pytest.skip("no RDMA card")


def packages(role: Role) -> list[str]:
    """Return the packages that the role installs."""
    return named(role, "doca_ofed_packages", ["doca-ofed"])


def distribution(host: Any, doca: str) -> str:
    """Return NVIDIA's name of the node's distribution beside a version of DOCA, as the role has it.

    Before DOCA 3.2 there is one for each minor release of RHEL.
    """
    name, version = os_release(host)
    if name == "ubuntu":
        return f"ubuntu{version}"
    is_before = [int(part) for part in re.findall(r"\d+", doca)[:2]] < [3, 2]
    return f"rhel{version if is_before else version.partition('.')[0]}"


def architecture(host: Any) -> str:
    """Return NVIDIA's name of the node's architecture."""
    machine = ask(host, "uname -m")
    return {"aarch64": "arm64-sbsa"}.get(machine, machine)


@asserts("doca_ofed_version")
def test_package(host: Any, wanted: str, role: Role) -> None:
    """The packages are installed in this version."""
    wrong = problem(host, packages(role), str(wanted))
    assert not wrong, wrong


@asserts(
    "doca_ofed_hold",
    when=lambda role: bool(role["doca_ofed_version"]) and bool(role["doca_ofed_hold"]),
)
def test_hold(host: Any, role: Role) -> None:
    """An ordinary upgrade leaves it alone."""
    wrong = hold_problem(host, packages(role))
    assert not wrong, wrong


@asserts("doca_ofed_url", when=lambda role: bool(role["doca_ofed_version"]))
def test_repository(host: Any, wanted: str, role: Role) -> None:
    """The package manager knows the repository of this version."""
    version = str(role["doca_ofed_version"])
    names = {
        "VERSION": lambda _: version,
        "DISTRIBUTION": lambda node: distribution(node, version),
        "ARCHITECTURE": architecture,
    }
    wrong = repository_problem(host, wanted, names)
    assert not wrong, wrong


@asserts("doca_ofed_version")
def test_loaded(host: Any) -> None:
    """The card runs with the installed modules: they count only after a restart."""
    loaded = read(host, "/sys/module/mlx5_core/srcversion")
    if loaded is None:
        pytest.skip("mlx5_core is not loaded")
    installed = str(host.run("modinfo -F srcversion mlx5_core").stdout).strip()
    assert loaded == installed, f"mlx5_core {loaded} is loaded, {installed or 'none'} is installed"


@asserts("doca_ofed_version")
def test_loaded_at_boot(host: Any) -> None:
    """The next boot loads its modules."""
    wrong = enabled_problem(host, "openibd")
    assert not wrong, wrong
