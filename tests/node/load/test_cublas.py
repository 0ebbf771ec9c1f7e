"""Which cuBLAS a process has loaded, asked of a library built as a container would bring it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = """
int cublasGetProperty(int type, int *value) {
  static const int parts[] = {%s};
  *value = parts[type];
  return %d;
}
"""
ASK = """
import ctypes, sys
from hwcheck.node.load.cublas import cublas_version
for path in sys.argv[1:]:
    ctypes.CDLL(path)
print(cublas_version())
"""


def library(folder: Path, parts: str, name: str = "libcublas.so.12", status: int = 0) -> Path:
    folder.mkdir()
    command = ["gcc", "-shared", "-fPIC", "-x", "c", "-", "-o", str(folder / name)]
    subprocess.run(command, input=SOURCE % (parts, status), text=True, check=True)
    return folder / name


def version_with(*loaded: Path) -> str:
    command = [sys.executable, "-c", ASK, *map(str, loaded)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def test_two_images_are_told_apart(tmp_path: Path) -> None:
    wheel = library(tmp_path / "wheel", "12, 8, 4")
    container = library(tmp_path / "container", "12, 8, 5", "libcublas.so.12.8.5.7")
    assert (version_with(wheel), version_with(container)) == ("12.8.4", "12.8.5")


@pytest.mark.parametrize(
    ("name", "status"), [("libcublasLt.so.12", 0), ("libcublas.so.12", 14)], ids=["Lt", "refused"]
)
def test_a_library_that_does_not_tell(tmp_path: Path, name: str, status: int) -> None:
    assert version_with(library(tmp_path / "it", "12, 8, 4", name, status)) == ""


def test_a_folder_with_a_space_in_its_name(tmp_path: Path) -> None:
    assert version_with(library(tmp_path / "my environment", "12, 8, 4")) == "12.8.4"


def test_without_a_library() -> None:
    assert version_with() == ""
