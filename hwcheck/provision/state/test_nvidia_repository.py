"""nvidia_repository: the node takes packages from it, with its priority."""

from __future__ import annotations

from typing import Any

from hwcheck.provision.state.asserts import ask, asserts
from hwcheck.provision.state.packages import os_release, repository_problem


def distribution(host: Any) -> str:
    """Return NVIDIA's name of the node's distribution, as the role has it."""
    name, version = os_release(host)
    major = version.partition(".")[0]
    by_name = {
        "ubuntu": f"ubuntu{version.replace('.', '')}",
        "debian": f"debian{major}",
        "fedora": f"fedora{major}",
    }
    return by_name.get(name, f"rhel{major}")


def architecture(host: Any) -> str:
    """Return NVIDIA's name of the node's architecture."""
    machine = ask(host, "uname -m")
    return {"aarch64": "sbsa"}.get(machine, machine)


@asserts("nvidia_repository_url")
def test_repository(host: Any, wanted: str) -> None:
    """The package manager knows the repository."""
    names = {"DISTRIBUTION": distribution, "ARCHITECTURE": architecture}
    wrong = repository_problem(host, wanted, names)
    assert not wrong, wrong
