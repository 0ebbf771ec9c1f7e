"""Secure Boot: a driver that it would refuse is not built, and signed modules are."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from tests.lab.scenario import load
from tests.roles.machine import KERNEL, PACKAGES, Machine
from tests.roles.nvidia_packages import OLD, driver, gdrcopy
from tests.roles.packages import Package

ROLE = ["nvidia_driver"]
VARIABLES = "/sys/firmware/efi/efivars"
STATE = f"{VARIABLES}/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
KEY = "/var/lib/dkms/mok.pub"
# As mokutil(1) answers.
MOKUTIL = """
grep -qxF "$2" /var/lib/hwlab/enrolled 2>/dev/null || { echo "$2 is not enrolled"; exit; }
echo "$2 is already enrolled"
exit 1
"""
HEADERS = f"linux-headers-{KERNEL}"
WANTED: dict[str, object] = {
    "nvidia_repository_url": f"file:{PACKAGES}/nvidia",
    "nvidia_repository_suite": "./",
    "nvidia_repository_trusted": True,
    "nvidia_driver_version": OLD,
}
pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def machine(namespaces: None) -> Iterator[Machine]:
    host = copy.deepcopy(dict(load("h100x8").host)) | {"driver": None}
    host["kernel"]["modules"] = []
    with Machine(host, [Package(HEADERS, "6.18-1")]) as machine:
        machine.add_repository("nvidia", [*driver(OLD), *gdrcopy("2.5.1")])
        machine.install("mokutil", MOKUTIL)
        machine.write(KEY, "a key")
        yield machine


def secure_boot(machine: Machine, *, on: bool) -> None:
    """Let the firmware say whether it is on."""
    machine.ask(f"mkdir -p {VARIABLES}; printf '\\006\\000\\000\\000\\00{int(on)}' >{STATE}")


def test_a_driver_that_it_would_refuse_is_not_built(machine: Machine) -> None:
    secure_boot(machine, on=True)
    refused = machine.play(ROLE, **WANTED)
    assert refused.code != 0
    assert f"mokutil --import {KEY}" in refused.text
    assert "nvidia_driver : Keep nouveau from loading, or let it load" not in refused.changed
    assert machine.ask("ls /etc/modprobe.d/hwcheck-* 2>/dev/null || true") == ""


@pytest.mark.wide
def test_nor_is_gdrcopy(machine: Machine) -> None:
    secure_boot(machine, on=True)
    refused = machine.play(["gdrcopy"], **WANTED, gdrcopy_enabled=True)
    assert refused.code != 0
    assert "the kernel would refuse gdrdrv" in refused.text
    assert "or take signed modules (gdrcopy_precompiled)" in refused.text
    assert {name.partition(" : ")[0] for name in refused.changed} <= {"nvidia_repository"}


@pytest.mark.wide  # no machine of the other tests has it, and on none the driver is refused
def test_without_it_nothing_is_refused(machine: Machine) -> None:
    secure_boot(machine, on=False)
    assert machine.play(ROLE, "--check", **WANTED).code == 0


def test_with_the_key_enrolled_nothing_is_refused(machine: Machine) -> None:
    secure_boot(machine, on=True)
    machine.ask(f"echo {KEY} >/var/lib/hwlab/enrolled")
    assert machine.play(ROLE, "--check", **WANTED).code == 0
    machine.ask("rm /var/lib/hwlab/enrolled")


@pytest.mark.wide
def test_signed_modules_need_neither_a_key_nor_headers(machine: Machine) -> None:
    secure_boot(machine, on=True)
    wanted = {**WANTED, "nvidia_driver_precompiled": "true"}
    assert machine.play(ROLE, **wanted).code == 0
    assert machine.ask("cat /sys/module/nvidia/version") == OLD
    assert machine.ask(f"dpkg-query -W {HEADERS} 2>/dev/null || true") == ""
    assert machine.play(ROLE, **wanted).changes == 0
