from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hwcheck.node.host import torch_stack
from hwcheck.node.host.torch_stack import nccl_version, torch_version, version_in_name


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An interpreter that has nothing but what a test installs."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    return tmp_path


def install(site: Path, name: str, version: str, *requires: str) -> None:
    folder = site / f"{name.replace('-', '_')}-{version}.dist-info"
    folder.mkdir()
    lines = [f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in requires)]
    (folder / "METADATA").write_text("Metadata-Version: 2.1\n" + "\n".join(lines) + "\n")


def put_torch(site: Path, version_py: str) -> None:
    (site / "torch").mkdir()
    (site / "torch/__init__.py").write_text("raise SystemExit('torch was imported')\n")
    (site / "torch/version.py").write_text(version_py)


def test_nothing_is_installed(site: Path) -> None:
    assert (torch_version(), nccl_version()) == ("", "")


def test_torch_and_the_nccl_that_it_asks_for(site: Path) -> None:
    put_torch(site, "from typing import Optional\n__version__ = '2.8.0+cu128'\ncuda = '12.8'\n")
    other = "nvidia-cudnn-cu12==9.10.2.21"
    install(site, "torch", "2.8.0", other, "nvidia-nccl-cu12==2.27.3; platform_system == 'Linux'")
    install(site, "nvidia-nccl-cu12", "2.27.5")
    install(site, "nvidia-nccl-cu11", "2.21.5")
    assert torch_version() == "2.8.0+cu128"
    assert nccl_version() == "2.27.5", "what is installed, not what was asked for"


def test_a_wheel_that_is_asked_for_and_missing(site: Path) -> None:
    install(site, "torch", "2.8.0", "nvidia-nccl-cu12==2.27.3")
    assert nccl_version() == ""


def test_a_version_file_that_says_nothing(site: Path) -> None:
    put_torch(site, "git_version = 'abc'\n")
    install(site, "torch", "2.5.1")
    assert (torch_version(), nccl_version()) == ("2.5.1", "")


def test_nccl_of_a_conda_environment(site: Path) -> None:
    (site / "lib").mkdir()
    (site / "lib/libnccl.so.2.21.5").touch()
    (site / "lib/libnccl.so.2").symlink_to("libnccl.so.2.21.5")
    assert nccl_version() == "2.21.5"


def test_the_answer_is_one_line_of_json(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_torch(site, '__version__: str = "2.1.0a0+git12"\n')
    torch_stack.main()
    assert capsys.readouterr().out == '{"torch": "2.1.0a0+git12", "nccl": ""}\n'


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("/usr/lib/libnccl.so.2.26.2", "2.26.2"),
        ("libnccl.so.2", ""),
        ("/opt/libnccl.so.2.26.2.bak", ""),
        ("", ""),
    ],
)
def test_version_in_name(name: str, version: str) -> None:
    assert version_in_name(name) == version
