"""cuda_toolkit: the packages, the compiler that logins find."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwcheck.provision.state.asserts import asserts
from hwcheck.provision.state.packages import hold_problem, named, problem

Role = Mapping[str, Any]


def packages(role: Role) -> list[str]:
    """Return the packages that the role installs."""
    name = f"cuda-toolkit-{str(role['cuda_toolkit_version']).replace('.', '-')}"
    return named(role, "cuda_toolkit_packages", [name])


@asserts("cuda_toolkit_version")
def test_package(host: Any, wanted: str, role: Role) -> None:
    """The packages are installed in this version."""
    wrong = problem(host, packages(role), str(role["cuda_toolkit_release"]) or str(wanted))
    assert not wrong, wrong


@asserts("cuda_toolkit_hold", when=lambda role: bool(role["cuda_toolkit_hold"]))
def test_hold(host: Any, role: Role) -> None:
    """An ordinary upgrade leaves the toolkit alone."""
    wrong = hold_problem(host, packages(role))
    assert not wrong, wrong


@asserts("cuda_toolkit_link")
def test_link(host: Any, wanted: str, role: Role) -> None:
    """The link leads to the toolkit of this version."""
    target = host.run("readlink -f %s", wanted).stdout.strip()
    version = str(role["cuda_toolkit_version"])
    assert target.endswith(f"/cuda-{version}"), f"{wanted} leads to {target or 'nothing'}"


@asserts("cuda_toolkit_profile", when=lambda role: bool(role["cuda_toolkit_profile"]))
def test_login(host: Any, role: Role) -> None:
    """A login has the toolkit's programs on its search path."""
    path = host.run("env -i HOME=/ sh -lc 'echo \"$PATH\"'").stdout.strip().split(":")
    folder = f"{role['cuda_toolkit_link'] or '/usr/local/cuda'}/bin"
    assert folder in path, f"{folder} is not on the search path of a login"
