"""Fixtures of the tests that apply roles to simulated machines."""

from __future__ import annotations

import pytest

from tests.lab.conftest import namespaces
from tests.roles.machine import QUICK

__all__ = ["namespaces"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a machine as ``lab``; another ansible-core takes its time."""
    for item in items:
        if "/tests/roles/" in str(item.path) and "machine" in getattr(item, "fixturenames", ()):
            item.add_marker("lab")
            if not QUICK:
                item.add_marker(pytest.mark.timeout(10800))
