"""Each worker of a test run collects these tests: torch, which takes long to import, waits."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def gpu() -> None:
    """Skip where torch cannot use a GPU."""
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("no GPU that torch can use")
