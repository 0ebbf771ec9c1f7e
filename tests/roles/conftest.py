"""Fixtures of the tests that apply roles to simulated machines."""

from __future__ import annotations

import pytest

from tests.lab.conftest import namespaces

__all__ = ["namespaces"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a machine as ``lab``."""
    for item in items:
        if "/tests/roles/" in str(item.path) and "machine" in getattr(item, "fixturenames", ()):
            item.add_marker("lab")
