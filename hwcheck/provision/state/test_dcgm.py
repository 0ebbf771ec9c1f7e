"""dcgm: the packages and the service, where it is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwcheck.provision.state.asserts import asserts
from hwcheck.provision.state.node import daemon, need_gpu
from hwcheck.provision.state.packages import hold_problem, named, problem

Role = Mapping[str, Any]


def applies(host: Any, role: Role) -> None:  # noqa: ARG001
    """Skip the assertions where the role does nothing."""
    need_gpu(host)


def enabled(role: Role) -> bool:
    """Return whether the role does anything on the host."""
    return bool(role["dcgm_enabled"])


def packages(role: Role) -> list[str]:
    """Return the packages that the role installs."""
    name = f"datacenter-gpu-manager-4-cuda{role['dcgm_cuda_major']}"
    return named(role, "dcgm_packages", [name])


@asserts("dcgm_enabled", when=enabled)
def test_package(host: Any, role: Role) -> None:
    """The packages are installed in the version."""
    wrong = problem(host, packages(role), str(role["dcgm_version"]))
    assert not wrong, wrong


@asserts("dcgm_hold", when=lambda role: enabled(role) and bool(role["dcgm_hold"]))
def test_hold(host: Any, role: Role) -> None:
    """An ordinary upgrade leaves it alone."""
    wrong = hold_problem(host, packages(role))
    assert not wrong, wrong


@asserts("dcgm_service", when=enabled)
def test_service(host: Any, wanted: str) -> None:
    """The service runs now and at the next boot."""
    wrong = daemon(host, wanted, on=True)
    assert not wrong, wrong
