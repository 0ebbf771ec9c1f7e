"""container_toolkit: packages, the runtimes that know it, and the description of the GPUs."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import pytest

from hwcheck.provision.state.asserts import NotMeasuredError, ask, asserts
from hwcheck.provision.state.node import need_gpu, read
from hwcheck.provision.state.packages import hold_problem, named, problem

DOCKER_FILE = "/etc/docker/daemon.json"
DOCKER_RUNTIMES = "docker info --format '{{json .Runtimes}}'"
CONTAINERD = "containerd config dump"
DESCRIPTIONS = ("/var/run/cdi/nvidia.yaml", "/etc/cdi/nvidia.yaml")
"""Of two descriptions of a device the one in /var/run counts (CDI specification)."""

Role = Mapping[str, Any]


def applies(host: Any, role: Role) -> None:  # noqa: ARG001
    """Skip the assertions where the role does nothing."""
    need_gpu(host)


def enabled(role: Role) -> bool:
    """Return whether the role does anything on the host."""
    return bool(role["container_toolkit_enabled"])


def packages(role: Role) -> list[str]:
    """Return the packages that the role installs."""
    return named(role, "container_toolkit_packages", ["nvidia-container-toolkit"])


@asserts("container_toolkit_enabled", when=enabled)
def test_package(host: Any, role: Role) -> None:
    """The packages are installed in the version."""
    wrong = problem(host, packages(role), str(role["container_toolkit_version"]))
    assert not wrong, wrong


@asserts(
    "container_toolkit_hold",
    when=lambda role: enabled(role) and bool(role["container_toolkit_hold"]),
)
def test_hold(host: Any, role: Role) -> None:
    """An ordinary upgrade leaves it alone."""
    wrong = hold_problem(host, packages(role))
    assert not wrong, wrong


@asserts("container_toolkit_runtimes", each=True, when=enabled)
def test_runtime(host: Any, wanted: str) -> None:
    """The runtime has NVIDIA's, now and when it starts again."""
    if wanted == "containerd":
        has = re.search(r"\.runtimes\.nvidia\]", ask(host, CONTAINERD)) is not None
        assert has, "containerd does not know NVIDIA's runtime"
        return
    assert "nvidia" in _docker(host).get("runtimes", {}), f"{DOCKER_FILE} has no runtime nvidia"
    runtimes = json.loads(ask(host, DOCKER_RUNTIMES))
    assert "nvidia" in runtimes, "the Docker that runs does not know NVIDIA's runtime"


@asserts(
    "container_toolkit_default_runtime",
    when=lambda role: enabled(role) and bool(role["container_toolkit_default_runtime"]),
)
def test_default_runtime(host: Any, role: Role) -> None:
    """Every container is started with it."""
    for runtime in role["container_toolkit_runtimes"]:
        if runtime == "docker":
            default = str(_docker(host).get("default-runtime", "runc"))
        else:
            line = re.search(r"default_runtime_name = [\"'](\w*)", ask(host, CONTAINERD))
            default = line[1] if line else "runc"
        assert default == "nvidia", f"{runtime} starts containers with {default}"


@asserts("container_toolkit_cdi", when=enabled)
def test_cdi(host: Any) -> None:
    """The GPUs are described for the driver that runs."""
    driver = read(host, "/sys/module/nvidia/version")
    if driver is None:
        pytest.skip("no NVIDIA driver is loaded")
    texts = ((path, read(host, path)) for path in DESCRIPTIONS)
    path, text = next(((path, text) for path, text in texts if text is not None), ("", ""))
    assert path, "no CDI description of the GPUs"
    assert f".so.{driver}" in str(text), f"{path} is not of driver {driver}"


def _docker(host: Any) -> dict[str, Any]:
    text = read(host, DOCKER_FILE)
    try:
        content = json.loads(text or "{}")
    except ValueError:
        raise NotMeasuredError(f"{DOCKER_FILE} is no JSON") from None
    return content if isinstance(content, dict) else {}
