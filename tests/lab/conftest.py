"""Fixtures of the tests that run over real SSH."""

from __future__ import annotations

import os

import pytest

from tests.lab.network import why_not


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark everything here as ``lab``."""
    for item in items:
        if "/lab/" in str(item.path):
            item.add_marker("lab")


@pytest.fixture(scope="session")
def namespaces() -> None:
    """Skip where no lab can be built; fail instead in CI, where one must be."""
    reason = why_not()
    if reason and os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(f"CI must run the lab tests: {reason}")
    if reason:
        pytest.skip(f"no network namespaces with sshd: {reason}")
