"""NVIDIA's own repository, by the names that it has for a node's distribution and processor."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import pytest

from tests.lab.scenario import load
from tests.roles.machine import PACKAGES, Machine
from tests.roles.packages import Package
from tests.roles.signing import SigningKey
from tests.roles.stated import state

ROLE = ["nvidia_repository"]
OS_RELEASE = 'NAME="Debian GNU/Linux"\nID=debian\nVERSION_ID="{version}"\nVERSION="{version} (x)"\n'
HOME = "http://127.0.0.1:8080/"
FOLDER = "debian12/x86_64"
INVENTORY: dict[str, object] = {
    "nvidia_repository_url": f"{HOME}DISTRIBUTION/ARCHITECTURE/",
    "nvidia_repository_suite": "./",
}
# NVIDIA's own is not within reach: this one takes its place.
WANTED = {**INVENTORY, "nvidia_repository_home": HOME}
SERVER = f"""\
[Service]
WorkingDirectory={PACKAGES}
ExecStart=/usr/bin/python3 -m http.server 8080 --bind 127.0.0.1
"""
pytestmark = pytest.mark.timeout(600)


def name_it(machine: Machine, version: str) -> None:
    """Make it a Debian of this version."""
    machine.write("/etc/os-release", OS_RELEASE.format(version=version))
    machine.write("/etc/debian_version", f"{version}.1\n")


@pytest.fixture(scope="module")
def machine(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with Machine(copy.deepcopy(dict(load("h100x8").host)), []) as machine:
        with SigningKey(tmp_path_factory.mktemp("gpg") / "k") as key:
            machine.add_repository(FOLDER, [Package("nvidia-open", "580.65.06-1")], key)
            machine.write(f"{PACKAGES}/{FOLDER}/3bf863cc.pub", key.armored.read_text())
            machine.write(f"{PACKAGES}/debian13/x86_64/8793F200.pub", key.armored.read_text())
        machine.write("/etc/systemd/system/mirror.service", SERVER)
        machine.ask("systemctl daemon-reload; systemctl start mirror")
        name_it(machine, "12")
        yield machine


def test_its_address_and_key_follow_from_the_distribution(machine: Machine) -> None:
    predicted = machine.play(ROLE, "--check", "--diff", **WANTED)
    assert predicted.code == 0, predicted.text
    assert f"{HOME}{FOLDER}/" in predicted.text
    before = state(machine, ROLE, **INVENTORY)
    assert before.variables("fail") == {"nvidia_repository_url"}, before.text
    first = machine.play(ROLE, **WANTED)
    assert first.code == 0, first.text
    sources = machine.ask("cat /etc/apt/sources.list.d/hwcheck-nvidia.sources")
    assert f"URIs: {HOME}{FOLDER}/" in sources
    assert "Signed-By: /etc/apt/keyrings/hwcheck-nvidia.asc" in sources
    machine.ask("apt-get -q update -o APT::Update::Error-Mode=any")
    assert machine.play(ROLE, **WANTED).changes == 0
    assert state(machine, ROLE, **INVENTORY).code == 0


def test_each_distribution_has_its_own_address_and_key(machine: Machine) -> None:
    machine.ask("rm /etc/apt/keyrings/hwcheck-nvidia.asc")
    name_it(machine, "13")
    predicted = machine.play(ROLE, "--check", "--diff", "--flush-cache", **WANTED)
    assert predicted.code == 0, predicted.text
    assert f"{HOME}debian13/x86_64/" in predicted.text


def test_a_distribution_without_one_is_refused(machine: Machine) -> None:
    name_it(machine, "31")
    refused = machine.play(ROLE, "--flush-cache", **WANTED)
    assert refused.code != 0
    assert "no repository of NVIDIA's is known for Debian 31" in refused.text
    assert refused.changes == 0
