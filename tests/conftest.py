"""What tests share: a stand-in for NVIDIA's library, a disk that is soon full."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node import two_gpus


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``new`` and ``old``: NVML of a newer and an older driver."""
    if shutil.which("gcc") is None:
        assert os.environ.get("CI") != "true", "gcc is missing, and CI must not skip this"
        pytest.skip("gcc is needed to build a stand-in for libnvidia-ml")
    folder = tmp_path_factory.mktemp("nvml")
    two_gpus.write(folder / "new", older=False)
    two_gpus.write(folder / "old", older=True)
    return folder


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Return a file system of its own with room for 32 KiB."""
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=32k,mode=700", "hwcheck-test", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        assert os.environ.get("CI") != "true", done.stderr
        pytest.skip(f"no small file system here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
