"""The playbooks by hand: one host first, then some at a time; too many failures end it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.roles.machine import PYTHON

ROOT = Path(__file__).resolve().parents[2]
HOSTS = [f"node{number}" for number in range(1, 6)]
# Refused before anything is changed.
WRONG = {"validation_env_path": "not absolute"}
FINE = {"validation_env_python": sys.executable, "validation_env_requirements": []}
REACHED = re.compile(r"^(?:ok|changed|fatal): \[(\w+)\]", re.MULTILINE)
pytestmark = pytest.mark.timeout(300)


def play(folder: Path, wrong: list[str], **extra: object) -> list[str]:
    """Apply one role of the site to hosts that are this machine; return those it reached."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    hosts = {
        name: WRONG if name in wrong else {"validation_env_path": str(folder / name)}
        for name in HOSTS
    }
    inventory = folder / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": hosts, "vars": local | FINE}}))
    command = [PYTHON, "-m", "ansible", "playbook", str(ROOT / "playbooks/site.yml"), "--check"]
    done = subprocess.run(
        [*command, "-i", str(inventory), "-t", "validation_env", "-e", json.dumps(extra)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"ANSIBLE_NOCOLOR": "1", "ANSIBLE_GATHERING": "explicit"},
    )
    assert (done.returncode != 0) == bool(wrong), done.stdout + done.stderr
    _, _, last_play = done.stdout.partition("PLAY [Prepare validation")
    return sorted(set(REACHED.findall(last_play)))


def test_a_first_host_that_fails_is_the_last(tmp_path: Path) -> None:
    assert play(tmp_path, ["node1"]) == ["node1"]


@pytest.mark.wide
def test_a_batch_with_too_many_failures_ends_it(tmp_path: Path) -> None:
    assert play(tmp_path, ["node2"], site_serial=[1, 2]) == ["node1", "node2", "node3"]


@pytest.mark.wide
def test_more_may_fail_where_that_is_said(tmp_path: Path) -> None:
    more = {"site_serial": [1, 2], "site_max_fail_percentage": 50}
    assert play(tmp_path, ["node2"], **more) == HOSTS


@pytest.mark.wide
def test_without_a_failure_every_host_is_reached(tmp_path: Path) -> None:
    assert play(tmp_path, [], site_serial=[1, 100]) == HOSTS


def test_a_role_by_itself_has_what_roles_before_it_have_too(tmp_path: Path) -> None:
    """The role whose tag is named knows the hardware, and sets the repository up."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    mirror = {"nvidia_repository_url": "file:/none", "nvidia_repository_trusted": True}
    inventory = tmp_path / "inventory.yml"
    inventory.write_text(yaml.safe_dump({"all": {"hosts": {"node1": local | mirror}}}))
    playbook = str(ROOT / "playbooks/site.yml")
    command = [PYTHON, "-m", "ansible", "playbook", playbook, "-i", str(inventory), "--check"]
    done = subprocess.run(
        [*command, "-t", "dcgm,gpu_settings"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"ANSIBLE_NOCOLOR": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("TASK [node_hardware : Read the hardware of the node]") == 2
    assert done.stdout.count("TASK [nvidia_repository : Name the repository]") == 1
