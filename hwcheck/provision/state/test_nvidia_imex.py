"""nvidia_imex: package, service, list of hosts and channel 0 on trays of an NVLink domain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from hwcheck.provision.state.asserts import ask, asserts
from hwcheck.provision.state.next_boot import module_option
from hwcheck.provision.state.node import daemon, read
from hwcheck.provision.state.packages import begins, hold_problem, named, problem

CONFIG = "/etc/nvidia-imex/config.cfg"
NODES = "/etc/nvidia-imex/nodes_config.cfg"
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
OPTION = "NVreg_CreateImexChannel0"
UNNUMBERED_FROM = 580
"""From this branch on the package carries no branch in its name."""

Role = Mapping[str, Any]


def applies(host: Any, role: Role) -> None:  # noqa: ARG001
    """Skip the assertions where the role does nothing."""
    if not role["nvidia_imex_addresses"]:
        pytest.skip("nvidia_imex_addresses is empty")


def _run_by_the_service(role: Role) -> bool:
    return bool(role["nvidia_imex_service_enabled"])


@asserts("nvidia_imex_addresses")
def test_package(host: Any, role: Role) -> None:
    """The package is installed, of the version of the driver: it starts with no other."""
    driver = ask(host, "modinfo -F version nvidia")
    version = str(role["nvidia_imex_version"]) or driver
    wrong = problem(host, packages(role, version), version)
    assert not wrong, wrong
    assert begins(driver, version), f"driver {driver} is installed, not {version}"


@asserts("nvidia_imex_hold", when=lambda role: bool(role["nvidia_imex_hold"]))
def test_hold(host: Any, role: Role) -> None:
    """It moves only together with the driver."""
    version = str(role["nvidia_imex_version"]) or ask(host, "modinfo -F version nvidia")
    wrong = hold_problem(host, packages(role, version))
    assert not wrong, wrong


@asserts("nvidia_imex_addresses", when=_run_by_the_service)
def test_addresses(host: Any, wanted: list[str]) -> None:
    """The service is given all hosts of the domain, in the same order on each."""
    listed = (read(host, NODES) or "").split()
    more, less = sorted(set(listed) - set(wanted)), sorted(set(wanted) - set(listed))
    assert not less, f"{NODES} does not list {', '.join(less)}"
    assert not more, f"{NODES} lists {', '.join(more)} as well"
    assert listed == list(wanted), f"{NODES} has the hosts in another order"


@asserts("nvidia_imex_service_enabled", when=_run_by_the_service)
def test_service(host: Any) -> None:
    """The service runs now and at the next boot."""
    wrong = daemon(host, "nvidia-imex", on=True)
    assert not wrong, wrong


@asserts("nvidia_imex_config", each=True, when=_run_by_the_service)
def test_config(host: Any, wanted: tuple[str, Any]) -> None:
    """The configuration that the service reads has the line."""
    name, value = wanted
    lines = [line.partition("=") for line in (read(host, CONFIG) or "").splitlines()]
    actual = {key.strip(): text.strip() for key, _, text in lines}.get(name, "not set")
    assert actual == str(value), f"{name} is {actual}, not {value}"


@asserts("nvidia_imex_channel0", when=lambda role: bool(role["nvidia_imex_channel0"]))
def test_channel0(host: Any) -> None:
    """There is a channel, now and whenever the driver is loaded."""
    assert host.run("test -c %s", CHANNEL).succeeded, f"{CHANNEL} is not there"
    actual = module_option(host, "nvidia", OPTION)
    assert actual == "1", f"{OPTION} is {actual} from the next load on, not 1"


def packages(role: Role, version: str) -> list[str]:
    """Return the packages that the role installs for a version."""
    branch = version.partition(".")[0]
    numbered = branch.isdecimal() and int(branch) < UNNUMBERED_FROM
    return named(
        role, "nvidia_imex_packages", [f"nvidia-imex-{branch}" if numbered else "nvidia-imex"]
    )
