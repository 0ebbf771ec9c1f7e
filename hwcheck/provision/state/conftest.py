"""What an assertion is handed: the host, the value that is wanted, the role's variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
import testinfra.host

from hwcheck.exit_codes import USAGE
from hwcheck.provision.state.asserts import NotMeasuredError
from hwcheck.provision.state.cases import AssertCase
from hwcheck.provision.state.engine import Engine


@pytest.fixture
def host(case: AssertCase, pytestconfig: pytest.Config) -> testinfra.host.Host:
    """Return testinfra's host over the one session that all assertions of this host share."""
    engine = pytestconfig.pluginmanager.getplugin(Engine.NAME)
    assert engine is not None
    return engine.connections.host(case.host)


@pytest.fixture(autouse=True)
def _where_the_role_applies(request: pytest.FixtureRequest, case: AssertCase) -> None:
    """Ask the test file whether its role does anything on this host; it skips where not.

    Raises NotMeasuredError where it is not known what the role wants.
    """
    if case.problem:
        raise NotMeasuredError(case.problem)
    applies = getattr(request.module, "applies", None)
    if applies is not None:
        applies(request.getfixturevalue("host"), request.getfixturevalue("role"))


@pytest.fixture
def wanted(case: AssertCase) -> Any:
    """Return the value that the inventory wants."""
    return case.wanted


@pytest.fixture
def role(case: AssertCase) -> Mapping[str, Any]:
    """Return all variables of the role for this host."""
    return case.role_vars


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Refuse to assert nothing: without an inventory there is no host."""
    if not metafunc.config.pluginmanager.hasplugin(Engine.NAME):
        pytest.exit("hwcheck: which hosts? say --hwcheck-hosts INVENTORY", returncode=USAGE)
