"""gdrcopy: the packages, and the kernel module now and at boot, where it is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hwcheck.provision.state.asserts import asserts
from hwcheck.provision.state.next_boot import configuration
from hwcheck.provision.state.node import need_gpu, read
from hwcheck.provision.state.packages import begins, hold_problem, is_debian, named, problem

DEBIAN = ("gdrdrv-dkms", "libgdrapi")
RED_HAT = ("gdrcopy-kmod", "gdrcopy")

Role = Mapping[str, Any]


def applies(host: Any, role: Role) -> None:  # noqa: ARG001
    """Skip the assertions where the role does nothing."""
    need_gpu(host)


def enabled(role: Role) -> bool:
    """Return whether the role does anything on the host."""
    return bool(role["gdrcopy_enabled"])


def packages(host: Any, role: Role) -> list[str]:
    """Return the packages that the role installs."""
    return named(role, "gdrcopy_packages", DEBIAN if is_debian(host) else RED_HAT)


@asserts("gdrcopy_enabled", when=enabled)
def test_package(host: Any, role: Role) -> None:
    """The packages are installed in the version."""
    wrong = problem(host, packages(host, role), str(role["gdrcopy_version"]))
    assert not wrong, wrong


@asserts("gdrcopy_hold", when=lambda role: enabled(role) and bool(role["gdrcopy_hold"]))
def test_hold(host: Any, role: Role) -> None:
    """An ordinary upgrade leaves it alone."""
    wrong = hold_problem(host, packages(host, role))
    assert not wrong, wrong


@asserts("gdrcopy_enabled", when=enabled)
def test_loaded(host: Any, role: Role) -> None:
    """The module that runs is of this version, and programs find it."""
    if read(host, "/sys/module/nvidia/version") is None:
        pytest.skip("no NVIDIA driver is loaded")
    actual = read(host, "/sys/module/gdrdrv/version")
    assert actual is not None, "gdrdrv is not loaded"
    wanted = str(role["gdrcopy_version"]).partition("-")[0]
    assert not wanted or begins(actual, wanted), f"gdrdrv {actual} runs, not {wanted}"
    assert host.run("test -e /dev/gdrdrv").succeeded, (
        "gdrdrv is loaded, and /dev/gdrdrv is not there"
    )


@asserts("gdrcopy_enabled", when=enabled)
def test_loaded_at_boot(host: Any) -> None:
    """The next boot loads the module, and the running kernel has it."""
    names = {line.text for line in configuration(host, "modules-load.d")}
    assert "gdrdrv" in names, "the next boot does not load gdrdrv"
    assert host.run("modinfo -F version gdrdrv").succeeded, "the running kernel has no gdrdrv"
