"""Assertions on real hosts: before a role, after it, and when somebody has changed something."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.lab import Lab, wait_until
from tests.lab.provisioned import WANTED, Site, conf, logins

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(300)]

NAMES = ("gpu1", "gpu2")
DRIFT = "sed -i s/NCCL_DEBUG=.*/NCCL_DEBUG=INFO/ /etc/nccl.conf"


@pytest.fixture(scope="module")
def site(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with Lab(NAMES) as lab:
        yield Site(lab, tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="module")
def before(site: Site) -> subprocess.CompletedProcess[str]:
    """The state before anything is applied."""
    return site.state()


@pytest.fixture(scope="module")
def applied(
    site: Site, before: subprocess.CompletedProcess[str]
) -> subprocess.CompletedProcess[str]:
    """The role, applied; the state follows by itself."""
    return site.run("provision", "--playbook", "play.yml")


def test_before_the_role_it_fails_and_names_role_and_variable(
    before: subprocess.CompletedProcess[str],
) -> None:
    assert before.returncode == 1, before.stderr
    wrong = "/etc/nccl.conf is missing (role nccl, variable nccl_conf)"
    assert f"  gpu[1-2]: {wrong}\n" in before.stdout
    assert "hwcheck provision --hosts cluster.yml --limit gpu1,gpu2 --tags nccl" in before.stdout


def test_after_it_everything_holds(site: Site, applied: subprocess.CompletedProcess[str]) -> None:
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert "gpu1: ok (" in applied.stdout
    assert "gpu2: pass (1 pass)" in applied.stdout
    folder = site.newest()
    record = json.loads((folder / "state.json").read_text())
    assert (record["outcome"], record["exit_code"]) == ("pass", 0)
    assert "nccl" in record["roles"]
    events = [json.loads(line) for line in (folder / "provision/events.jsonl").open()]
    changed = {(event["host"], event["role"]) for event in events if event["kind"] == "changed"}
    assert changed == {("gpu1", "nccl"), ("gpu2", "nccl")}
    suites = ET.parse(folder / "junit.xml").getroot()
    assert {case.get("name") for case in suites.iter("testcase")} == {
        "test_conf[gpu1]",
        "test_conf[gpu2]",
    }


@pytest.mark.wide
def test_a_second_run_would_change_nothing(site: Site, applied: object) -> None:
    again = site.run("provision", "--playbook", "play.yml", "--check", "--diff")
    assert again.returncode == 0, again.stderr
    record = site.record("provision.json")
    assert [host["counts"]["changed"] for host in record["hosts"]] == [0, 0]
    assert not (site.newest() / "state.json").exists()
    # Ansible's shared connections, too, are closed and not left to run out.
    wait_until(lambda: not any(node.visitors() for node in site.lab.nodes.values()), 15)


def test_drift_on_one_host_is_that_hosts_failure(site: Site, applied: object) -> None:
    site.lab.nodes["gpu2"].ask(["sh", "-c", DRIFT])
    found = site.state()
    assert found.returncode == 1, found.stderr
    assert "gpu1: pass (1 pass)" in found.stdout
    wrong = "NCCL_DEBUG is INFO in /etc/nccl.conf, not WARN (role nccl, variable nccl_conf)"
    assert f"  gpu2: {wrong}\n" in found.stdout
    (failed,) = [host for host in site.record("state.json")["hosts"] if host["outcome"] == "fail"]
    assert (failed["host"], failed["assertions"][0]["variable"]) == ("gpu2", "nccl_conf")
    also = {**WANTED["nccl_conf_settings"], "NCCL_DEBUG": "INFO"}
    wanted = site.state("--limit", "gpu2", "-e", json.dumps({"nccl_conf_settings": also}))
    assert wanted.returncode == 0, wanted.stdout
    mended = site.run("provision", "--playbook", "play.yml", "--limit", "gpu2", "--tags", "nccl")
    assert mended.returncode == 0, mended.stderr
    assert "NCCL_DEBUG=WARN" in conf(site.lab.nodes["gpu2"])


def test_pytest_itself_says_the_same_over_one_session_per_host(
    site: Site, applied: object, tmp_path: Path
) -> None:
    before = [logins(node) for node in site.lab.nodes.values()]
    command = [sys.executable, "-m", "pytest", "--pyargs", "hwcheck.provision.state", "-q"]
    command += ["-p", "no:cacheprovider", "--hwcheck-hosts", str(site.inventory)]
    command += ["--hwcheck-roles", "nccl,system_tuning", "--hwcheck-limit", "gpu1"]
    command += ["--hwcheck-record", str(tmp_path / "record.json")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    record = json.loads((tmp_path / "record.json").read_text())
    assert done.returncode == record["exit_code"], done.stdout
    (host,) = record["hosts"]
    assert len(host["assertions"]) > 5
    by_role = {each["role"]: each["outcome"] for each in host["assertions"]}
    assert by_role["nccl"] == "pass"
    after = [logins(node) for node in site.lab.nodes.values()]
    assert [last - first for first, last in zip(before, after, strict=True)] == [1, 0]


def test_a_host_that_cannot_be_reached_is_not_asserted(site: Site, applied: object) -> None:
    node = site.lab.nodes["gpu1"]
    node.kill()
    try:
        found = site.state()
    finally:
        node.start_sshd()
    assert found.returncode == 3, found.stderr
    assert "gpu1: inconclusive" in found.stdout
    assert "Connection refused" in found.stdout
    assert "gpu2: pass" in found.stdout
