"""Fixtures of the tests that run over real SSH."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

from tests.lab import nvml
from tests.lab.namespaces import why_not
from tests.lab.nvml_answers import Stand


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here as ``lab``."""
    for item in items:
        if "/lab/" in str(item.path):
            item.add_marker("lab")


@pytest.fixture(scope="session")
def nvml_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the ``libnvidia-ml.so.1`` that answers from a scenario."""
    if shutil.which("gcc") is None:
        refuse("gcc is not installed", os.environ.get("CI", ""))
    return nvml.build(tmp_path_factory.mktemp("nvml"))


@pytest.fixture
def stand(nvml_library: Path, tmp_path: Path) -> Stand:
    """Return that library with a scenario file of the test's own."""
    return Stand(nvml_library, tmp_path / "scenario")


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skip where no lab can be built; fail instead in CI, where one must be."""
    reason = why_not()
    if reason:
        refuse(reason, os.environ.get("CI", ""))


def refuse(reason: str, ci: str) -> NoReturn:
    """Skip the test, or fail it where ``ci``, the variable of that name, says that this is CI."""
    if ci.lower() not in ("", "0", "false"):
        pytest.fail(f"CI must run the lab tests: {reason}")
    pytest.skip(f"no simulated hosts: {reason}")
