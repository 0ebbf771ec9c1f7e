"""`pytest --pyargs hwcheck.provision.state` as users run it, on this machine and hosts nowhere."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

QUIET = {
    "nccl_library": False,
    "nccl_conf": "present",
    "nccl_conf_settings": {"NCCL_DEBUG": "WARN"},
}
AWAY = {"ansible_host": "127.0.0.1", "ansible_port": 1, "ansible_user": "nobody"}


class Folder:
    """A folder with an inventory; the settings file of its hosts lies there too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.conf = path / "nccl.conf"
        self.conf.write_text("NCCL_DEBUG=WARN\n")

    def inventory(self, **hosts: dict[str, Any]) -> None:
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        common = {**QUIET, "nccl_conf_path": str(self.conf)}
        each = {name: {**(local if not given else {}), **given} for name, given in hosts.items()}
        text = yaml.safe_dump({"all": {"hosts": each, "vars": common}})
        (self.path / "cluster.yml").write_text(text)

    def pytest(self, *words: str, roles: str = "nccl") -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "pytest", "--pyargs", "hwcheck.provision.state", "-q"]
        command += ["-p", "no:cacheprovider", "--hwcheck-hosts", "cluster.yml"]
        command += ["--hwcheck-roles", roles, "--hwcheck-record", "record.json", *words]
        return subprocess.run(command, cwd=self.path, capture_output=True, text=True, check=False)

    def record(self) -> dict[str, Any]:
        found = json.loads((self.path / "record.json").read_text())
        assert isinstance(found, dict)
        return found


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    found = Folder(tmp_path)
    found.inventory(here={})
    return found


def test_a_host_that_is_as_wanted(folder: Folder) -> None:
    done = folder.pytest("--junit-xml=junit.xml")
    assert done.returncode == 0, done.stdout
    (host,) = folder.record()["hosts"]
    assert [each["outcome"] for each in host["assertions"]] == ["pass"]
    (case,) = ET.parse(folder.path / "junit.xml").getroot().iter("testcase")
    properties = {one.get("name"): one.get("value") for one in case.iter("property")}
    assert (properties["host"], properties["variable"]) == ("here", "nccl_conf")


def test_drift_names_role_and_variable_also_in_junit(folder: Folder) -> None:
    folder.conf.write_text("NCCL_DEBUG=INFO\n")
    done = folder.pytest("--junit-xml=junit.xml")
    assert done.returncode == 1, done.stdout
    said = "NCCL_DEBUG is INFO in "
    assert said in done.stdout
    assert "role nccl, variable nccl_conf; to mend it: hwcheck provision" in done.stdout
    (failure,) = ET.parse(folder.path / "junit.xml").getroot().iter("failure")
    assert said in str(failure.text)
    assert "Traceback" not in str(failure.text)
    wanted = json.dumps({"nccl_conf_settings": {"NCCL_DEBUG": "INFO"}})
    assert folder.pytest("--hwcheck-extra-vars", wanted).returncode == 0


def test_hosts_run_beside_each_other_and_one_that_is_away_spoils_no_other(folder: Folder) -> None:
    folder.inventory(here={}, away1=AWAY, away2={**AWAY, "ansible_port": 2})
    done = folder.pytest("--junit-xml=junit.xml")
    assert done.returncode == 3, done.stdout
    outcomes = {host["host"]: host["outcome"] for host in folder.record()["hosts"]}
    assert outcomes == {"here": "pass", "away1": "inconclusive", "away2": "inconclusive"}
    assert (
        "away[1-2]: not measured: connect: " in done.stdout or "Connection refused" in done.stdout
    )
    assert len(list(ET.parse(folder.path / "junit.xml").getroot().iter("error"))) == 2


def test_a_worker_that_dies_costs_its_host_only(folder: Folder) -> None:
    murderer = folder.path / "python"
    murderer.write_text("#!/bin/sh\nkill -9 $PPID\n")
    murderer.chmod(0o755)
    local = {"ansible_connection": "local", "ansible_python_interpreter": str(murderer)}
    folder.inventory(fatal=local, away=AWAY)
    done = folder.pytest()
    assert done.returncode == 3, done.stdout
    reasons = {host["host"]: host["reason"] for host in folder.record()["hosts"]}
    assert reasons["fatal"] == "its worker ended before it"
    assert "refused" in reasons["away"]


def test_a_host_of_which_nothing_is_asserted_is_no_pass(folder: Folder) -> None:
    done = folder.pytest(roles="dcgm")
    assert done.returncode == 3, done.stdout
    assert "here: inconclusive (no assertion applies to it)" in done.stdout


def test_a_node_that_hides_in_what_it_says_is_shown_plainly(folder: Folder) -> None:
    folder.conf.write_text("NCCL_DEBUG=\x1b[2J\x1b]0;owned\x07<b>x\n")
    done = folder.pytest("--junit-xml=junit.xml")
    assert done.returncode == 1
    assert "\x1b[2J" not in done.stdout
    assert "\x1b" not in (folder.path / "record.json").read_text().encode().decode("unicode_escape")
    ET.parse(folder.path / "junit.xml")


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--hwcheck-hosts", "nosuch.yml"), "no such inventory: nosuch.yml"),
        (("--hwcheck-roles", "nosuch"), "nosuch: no role with assertions"),
        (("--hwcheck-limit", "nosuch"), "nosuch"),
        (("--hwcheck-forks", "0"), "it takes a whole number from 1"),
    ],
)
def test_what_cannot_be_meant_ends_with_2(folder: Folder, words: tuple[str, ...], why: str) -> None:
    done = folder.pytest(*words)
    assert done.returncode == 2, done.stdout
    assert why in done.stderr


def test_without_an_inventory_nothing_is_asserted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "--pyargs", "hwcheck.provision.state", "-q"]
    command += ["-p", "no:cacheprovider"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "say --hwcheck-hosts INVENTORY" in done.stdout
