"""What the files of container runtimes say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hwcheck.contract.facts import ContainerSettings
from hwcheck.node.host.reader import NodeHost

GIB = 1 << 30
LIMITS = {"memlock": {"Name": "memlock", "Hard": -1, "Soft": -1}}
RUNTIMES = {"nvidia": {"path": "nvidia-container-runtime", "runtimeArgs": []}}


def of_docker(tmp_path: Path, says: Any) -> ContainerSettings:
    file = tmp_path / "etc/docker/daemon.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(says if isinstance(says, str) else json.dumps(says))
    found = NodeHost(str(tmp_path)).container_settings("docker")
    assert found is not None
    return found


def test_a_file_of_docker(tmp_path: Path) -> None:
    says = {"default-runtime": "nvidia", "runtimes": RUNTIMES, "default-ulimits": LIMITS}
    assert of_docker(tmp_path, {**says, "default-shm-size": "16G"}) == ContainerSettings(
        "/etc/docker/daemon.json", "nvidia", "nvidia-container-runtime", -1, 16 * GIB
    )


@pytest.mark.parametrize(
    ("size", "size_bytes"),
    [
        ("64M", 64 << 20),
        ("1gb", GIB),
        ("1.5g", 3 * GIB // 2),
        ("67108864", 64 << 20),
        ("much", None),
    ],
)
def test_sizes(tmp_path: Path, size: str, size_bytes: int | None) -> None:
    assert of_docker(tmp_path, {"default-shm-size": size}).shm_bytes == size_bytes


@pytest.mark.parametrize("text", ["{", "[]", '{"a": 1,}', "[" * 100_000, "\0"])
def test_what_dockerd_cannot_read(tmp_path: Path, text: str) -> None:
    assert of_docker(tmp_path, text) == ContainerSettings("/etc/docker/daemon.json", broken=True)


@pytest.mark.parametrize(
    "says",
    [
        "",
        {},
        {"runtimes": [], "default-ulimits": "x"},
        {"default-ulimits": {"memlock": {"Soft": "x"}}},
        {"runtimes": {"nvidia": None}},
    ],
)
def test_what_says_nothing(tmp_path: Path, says: Any) -> None:
    assert of_docker(tmp_path, says) == ContainerSettings("/etc/docker/daemon.json")


def test_files_of_containerd(tmp_path: Path) -> None:
    main, more = tmp_path / "etc/containerd/config.toml", tmp_path / "etc/containerd/conf.d"
    more.mkdir(parents=True)
    main.write_text(
        'version = 2\n[plugins."io.containerd.grpc.v1.cri".containerd]\n'
        '  default_runtime_name = "runc" # as it came\n'
        '  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]\n'
        '    BinaryName = "/usr/bin/runc"\n'
    )
    reader = NodeHost(str(tmp_path))
    assert reader.container_settings("containerd") == ContainerSettings(
        "/etc/containerd/config.toml", "runc"
    )
    (more / "99-nvidia.toml").write_text(
        "[plugins.'io.containerd.cri.v1.runtime'.containerd]\n"
        "default_runtime_name = 'nvidia'\n"
        "[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]\n"
        "BinaryName = '/usr/local/nvidia/toolkit/nvidia-container-runtime'\n"
    )
    assert reader.container_settings("containerd") == ContainerSettings(
        "/etc/containerd/config.toml",
        "nvidia",
        "/usr/local/nvidia/toolkit/nvidia-container-runtime",
    )


def test_a_file_of_podman(tmp_path: Path) -> None:
    file = tmp_path / "etc/containers/containers.conf"
    file.parent.mkdir(parents=True)
    file.write_text(
        '[containers]\ndefault_ulimits = ["nofile=65535:65535", "memlock=-1:-1"]\n'
        'shm_size = "65536k"\n[engine]\nruntime = "crun"\n'
        '[engine.runtimes]\nnvidia = ["/usr/bin/nvidia-container-runtime"]\n'
    )
    assert NodeHost(str(tmp_path)).container_settings("podman") == ContainerSettings(
        "/etc/containers/containers.conf", "crun", "/usr/bin/nvidia-container-runtime", -1, 64 << 20
    )


def test_without_a_file(tmp_path: Path) -> None:
    reader = NodeHost(str(tmp_path))
    for runtime in ("docker", "podman", "containerd", "enroot", "apptainer", "../x"):
        assert reader.container_settings(runtime) is None


def test_programs(tmp_path: Path) -> None:
    (tmp_path / "usr/bin").mkdir(parents=True)
    program = tmp_path / "usr/bin/nvidia-container-runtime"
    program.write_text("a program")
    reader = NodeHost(str(tmp_path))
    assert reader.has_program("nvidia-container-runtime")
    assert reader.has_program("/usr/bin/nvidia-container-runtime")
    assert not reader.has_program("/usr/local/bin/nvidia-container-runtime")
    assert not reader.has_program("nvidia-container-runtime-hook")
    program.write_text("")
    assert not reader.has_program("nvidia-container-runtime"), "left empty"
