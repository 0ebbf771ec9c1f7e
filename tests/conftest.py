"""What tests share: a stand-in for NVIDIA's library."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with ``new`` and ``old``, each with a ``libnvidia-ml.so.1``."""
    compiler = shutil.which("gcc")
    if compiler is None:
        assert os.environ.get("CI") != "true", "gcc is missing, and CI must not skip this"
        pytest.skip("gcc is needed to build a stand-in for libnvidia-ml")
    source = Path(__file__).with_name("node") / "fake_nvml.c"
    folder = tmp_path_factory.mktemp("nvml")
    for name, flags in (("new", []), ("old", ["-DOLD_DRIVER"])):
        (folder / name).mkdir()
        library = folder / name / "libnvidia-ml.so.1"
        command = [compiler, "-shared", "-fPIC", "-Wall", "-Werror", *flags]
        subprocess.run([*command, "-o", library, source], check=True, timeout=60)
    return folder
