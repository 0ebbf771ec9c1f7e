from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hwcheck.connect import payload
from hwcheck.contract.check import CouldNotMeasure
from hwcheck.contract.facts import TorchStack
from hwcheck.contract.reasons import NO_PERMISSION, Reason
from hwcheck.node.host.software import SoftwareReader
from tests.interpreters import interpreter
from tests.node.roots import Root

LIB = "usr/lib/x86_64-linux-gnu"


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def cache(root: Root, *paths: str) -> None:
    strings = b"\0".join(path.encode() for path in ("libnccl.so.2", *paths, "/lib/libc.so.6"))
    root.write_bytes(
        "etc/ld.so.cache", b"ld.so-1.7.0\0glibc-ld.so.cache1.1\x01\xff" + strings + b"\0"
    )


def library(root: Root, folder: str, version: str) -> str:
    root.write(f"{folder}/libnccl.so.{version}", "")
    os.symlink(f"libnccl.so.{version}", root.path / folder / "libnccl.so.2")
    return f"/{folder}/libnccl.so.2"


def test_no_nccl_in_the_system(root: Root) -> None:
    assert root.host.system_nccl() == []
    cache(root)
    assert root.host.system_nccl() == []


def test_the_version_is_that_of_the_file_behind_the_link(root: Root) -> None:
    cache(root, library(root, LIB, "2.26.2"))
    assert root.host.system_nccl() == ["2.26.2"]


def test_two_libraries_are_both_named_and_twice_the_same_once(root: Root) -> None:
    own = library(root, LIB, "2.26.2")
    cache(root, own, library(root, "usr/local/cuda/lib64", "2.20.5"), own)
    assert root.host.system_nccl() == ["2.20.5", "2.26.2"]


def test_a_link_that_leads_nowhere_or_out_of_the_root_is_none(root: Root, tmp_path: Path) -> None:
    (root.path / "opt").mkdir()
    os.symlink("/usr/lib/libnccl.so.2.9.9", root.path / "opt/libnccl.so.2")
    cache(root, "/opt/libnccl.so.2", "/gone/libnccl.so.2")
    assert root.host.system_nccl() == []


def test_this_interpreter_says_what_torch_says_of_itself(root: Root) -> None:
    torch = pytest.importorskip("torch")
    stack = root.host.torch_stack("")
    assert stack is not None
    assert stack.torch == torch.__version__


@pytest.mark.parametrize("version", ["3.8", "3.13"])
def test_from_the_zip_under_an_interpreter_without_torch(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    path = tmp_path / "payload.pyz"
    path.write_bytes(payload.build().data)
    assert "hwcheck/node/host/torch_stack.py" in zipfile.ZipFile(path).namelist()
    code = (
        f"import sys; sys.path.insert(0, {str(path)!r})\n"
        "from hwcheck.node.host.software import SoftwareReader\n"
        f"print(SoftwareReader().torch_stack(''), SoftwareReader().torch_stack({sys.executable!r}))"
    )
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    theirs = SoftwareReader().torch_stack(sys.executable)
    assert done.stdout.strip() == f"None {theirs}"


def script(folder: Path, text: str) -> str:
    path = folder / "python"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


def test_noise_before_the_answer_does_not_matter(root: Root, tmp_path: Path) -> None:
    said = '{"torch": "2.8.0", "nccl": "2.27.3"}'
    python = script(tmp_path, f"echo a greeting\necho '{said}'\n")
    assert root.host.torch_stack(python) == TorchStack("2.8.0", "2.27.3")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("echo no such library >&2; exit 127\n", "exited with code 127: no such library"),
        ("echo '[]'\n", "exited with code 0"),
        ("exec sleep 60\n", "gave no answer within 0.2 s"),
    ],
)
def test_an_interpreter_that_does_not_answer(
    root: Root, tmp_path: Path, text: str, reason: str
) -> None:
    root.host.answer_limit_s = 0.2 if "sleep" in text else 20
    with pytest.raises(CouldNotMeasure, match=reason):
        root.host.torch_stack(script(tmp_path, text))


def test_an_interpreter_that_is_not_there(root: Root) -> None:
    with pytest.raises(CouldNotMeasure, match="/no/python cannot be started: No such file"):
        root.host.torch_stack("/no/python")


def test_a_module_in_the_working_folder_does_not_stand_in(
    root: Root, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('stood in')\n")
    monkeypatch.chdir(tmp_path)
    assert root.host.torch_stack(sys.executable) == SoftwareReader().torch_stack("")


def test_the_size_of_a_file_behind_its_links(tmp_path: Path) -> None:
    root = Root(tmp_path)
    root.write("opt/topology.xml", "<system/>\n")
    root.write("opt/empty", "")
    os.symlink("topology.xml", tmp_path / "opt/link")
    os.symlink("nowhere", tmp_path / "opt/dangling")
    sizes = [root.host.file_bytes("/opt/" + name) for name in ("link", "empty", "dangling")]
    assert sizes == [10, 0, None]
    assert root.host.file_bytes("/opt/empty/below") is None


def test_libraries_of_a_cdi_specification(tmp_path: Path) -> None:
    root = Root(tmp_path)
    library = "/usr/lib64/libcuda.so.570.124.06"
    root.write(
        "etc/cdi/nvidia.yaml",
        "kind: nvidia.com/gpu\ncontainerEdits:\n  mounts:\n"
        f"  - hostPath: {library}\n    containerPath: {library}\n"
        "  - hostPath: /run/nvidia-persistenced/socket\n",
    )
    mounts = [{"hostPath": library}, {"hostPath": library}]
    root.write("run/cdi/nvidia.json", json.dumps({"kind": "nvidia.com/gpu", "mounts": mounts}))
    root.write("etc/cdi/other.yaml", "kind: vendor.com/card\nhostPath: /usr/lib64/libother.so\n")
    assert root.host.container_libraries() == {"/run/cdi/nvidia.json": [library]}, "it comes first"
    (tmp_path / "run/cdi/nvidia.json").rename(tmp_path / "run/cdi/nvidia.json.old")
    root.write(
        "run/cdi/plugin.yaml",
        f'kind: "k8s.device-plugin.nvidia.com/gpu"\nhostPath: {library}\n',
    )
    assert root.host.container_libraries() == {
        "/etc/cdi/nvidia.yaml": [library],
        "/run/cdi/plugin.yaml": [library],
    }, "of another kind of device"


def test_versions_of_tools_by_their_libraries(tmp_path: Path) -> None:
    root = Root(tmp_path)
    assert root.host.tool_versions() == {}
    for name in (
        "usr/lib/x86_64-linux-gnu/libnvidia-container.so.1.19.1",
        "usr/lib/x86_64-linux-gnu/libnvidia-container-go.so.1.18.0",
        "usr/lib/x86_64-linux-gnu/libnvidia-container.so.1",
        "usr/lib64/libdcgm.so.4.5.3",
        "usr/lib64/libdcgm.so.4",
        "usr/lib64/libdcgmmoduledevelop.so.4.4.0",
        "usr/lib64/libdcgm.so.4.5.3.dpkg-new",
    ):
        root.write(name, "a library")
    root.write("usr/lib64/libdcgm.so.4.6.0", "")  # left empty by an update within a container
    assert root.host.tool_versions() == {"container_toolkit": ["1.19.1"], "dcgm": ["4.5.3"]}
    root.write("usr/local/nvidia/toolkit/libnvidia-container.so.1.9.0", "a library")
    assert root.host.tool_versions()["container_toolkit"] == ["1.9.0", "1.19.1"]


def test_a_file_that_this_login_may_not_see_is_refused_by_code(
    root: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> os.stat_result:
        raise PermissionError(errno.EACCES, "Permission denied", path)

    monkeypatch.setattr("hwcheck.node.host.software.os.stat", refuse)
    with pytest.raises(CouldNotMeasure) as refused:
        root.host.file_bytes("/etc/nccl/topo.xml")
    assert refused.value.reason == Reason(NO_PERMISSION, "/etc/nccl/topo.xml: Permission denied")
