"""The pytest plugin: options, and the engine where ``--hwcheck-hosts`` asks for it.

pytest loads this in every run of an environment with hwcheck, so it imports nothing of weight.
"""

from __future__ import annotations

import pytest

from hwcheck.exit_codes import USAGE

FORKS = 32


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options."""
    group = parser.getgroup("hwcheck", "state of the nodes of an inventory")
    group.addoption(
        "--hwcheck-hosts",
        metavar="INVENTORY",
        help="Ansible inventory whose hosts `--pyargs hwcheck.provision.state` asserts",
    )
    group.addoption("--hwcheck-limit", metavar="PATTERN", help="Ansible pattern of hosts")
    group.addoption(
        "--hwcheck-extra-vars",
        action="append",
        default=[],
        metavar="VARS",
        help="variables that come before the inventory's, as Ansible's -e takes them",
    )
    group.addoption("--hwcheck-roles", metavar="ROLES", help="comma-separated roles to assert")
    group.addoption(
        "--hwcheck-forks", type=int, default=FORKS, metavar="N", help="hosts asserted at once"
    )
    group.addoption(
        "--hwcheck-become", action="store_true", help="become root on every host, by sudo"
    )
    group.addoption(
        "--hwcheck-become-password-fd",
        type=int,
        metavar="FD",
        help="file descriptor with sudo's password; the inventory's own comes before it",
    )
    group.addoption(
        "--hwcheck-accept-new-host-keys",
        action="store_true",
        help="take the host key of a host never met",
    )
    group.addoption(
        "--hwcheck-record", metavar="FILE", help="file in which the results are written as JSON"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Start the engine. An inventory that cannot be used ends pytest with exit code 2."""
    if config.getoption("hwcheck_hosts") is None:
        return
    from hwcheck.errors import UsageError
    from hwcheck.provision.state.engine import Engine
    from hwcheck.provision.state.request import from_options

    try:
        engine = Engine(from_options(config))
    except UsageError as error:
        pytest.exit(f"hwcheck: {error}", returncode=USAGE)
    config.pluginmanager.register(engine, Engine.NAME)
