"""``playbooks/apply_recommendation.yml``: what a run proved, brought to the hosts of that run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml

from hwcheck.advise.actions import advise
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.nccl_files import nccl_files
from hwcheck.contract.reasons import Reason
from hwcheck.judge.judge import judge
from hwcheck.results.run_folder import HostRecord, read_run, write_rendered
from tests.factories import gpu_host, hung, leg, saved
from tests.roles.machine import PYTHON

ROOT = Path(__file__).resolve().parents[2]
PROVEN = [hung(), leg("p2p_off", 21.0)]
pytestmark = pytest.mark.timeout(300)


def host(name: str, legs: list[object] | None = None) -> HostRecord:
    return gpu_host(name, legs or PROVEN, nvlink_links=0)


def write_run(out: Path, *records: HostRecord) -> Path:
    """Write a run folder with what `hwcheck validate` renders of it."""
    folder = saved(out, *records)
    meta = json.loads((folder / "run.json").read_text())
    started = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    (folder / "run.json").write_text(json.dumps(meta | {"started": started, "finished": started}))
    run = read_run(folder)
    write_rendered(folder, nccl_files(advise(run, judge(run, shipped()), shipped())))
    return folder


def age(run: Path, hours: float) -> None:
    """Make a run older."""
    meta = json.loads((run / "run.json").read_text())
    then = datetime.now(timezone.utc) - timedelta(hours=hours)
    text = json.dumps(meta | {"started": then.strftime("%Y-%m-%dT%H:%M:%SZ")})
    (run / "run.json").write_text(text)


def apply(
    run: Path, target: Path, hosts: str = "node01", *options: str, **extra: object
) -> subprocess.CompletedProcess[str]:
    """Apply a run to hosts that are this machine; the settings are written to ``target``."""
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    inventory = target.with_name("inventory.yml")
    names = dict.fromkeys(hosts.split(","))
    inventory.write_text(yaml.safe_dump({"all": {"hosts": names, "vars": local}}))
    variables = {"run": str(run), "nccl_conf_path": str(target), **extra}
    playbook = ROOT / "playbooks/apply_recommendation.yml"
    command = [PYTHON, "-m", "ansible", "playbook", "-i", str(inventory), str(playbook)]
    return subprocess.run(
        [*command, *options, "-e", json.dumps(variables)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"ANSIBLE_NOCOLOR": "1"},
    )


def test_a_proven_setting_is_shown_then_written_then_left(tmp_path: Path) -> None:
    run, target = write_run(tmp_path, host("node01")), tmp_path / "nccl.conf"
    shown = apply(run, target, "node01", "--check")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "+NCCL_P2P_DISABLE=1" in shown.stdout
    assert not target.exists()
    assert "changed=1" in apply(run, target).stdout
    assert "NCCL_P2P_DISABLE=1" in target.read_text().splitlines()
    assert "changed=0" in apply(run, target).stdout


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("old", "200 h old, and max_age_h is 168"),
        ("stranger", "it did not visit node07"),
        ("silent", "it has no whole report of node02"),
        ("unfinished", "it did not come to its end"),
        ("unproven", "it proves no setting"),
        ("edited", "is not what it proves"),
    ],
)
def test_a_run_that_cannot_be_relied_on_changes_nothing(
    tmp_path: Path, fault: str, says: str
) -> None:
    target, hosts = tmp_path / "nccl.conf", "node01"
    legs = [leg(), leg("p2p_off", 21.0)] if fault == "unproven" else PROVEN
    records = [host("node01", legs)]
    if fault == "silent":
        records.append(
            replace(host("node02"), state="partial", reason=Reason("not_measured", "cut off"))
        )
        hosts = "node01,node02"
    run = write_run(tmp_path, *records)
    if fault == "old":
        age(run, 200)
    elif fault == "stranger":
        hosts = "node01,node07"
    elif fault == "unfinished":
        meta = json.loads((run / "run.json").read_text())
        (run / "run.json").write_text(json.dumps(meta | {"finished": ""}))
    elif fault == "edited":
        (run / "nccl.conf").write_text("NCCL_ALGO=Ring\n")
    refused = apply(run, target, hosts)
    assert refused.returncode != 0
    assert says in refused.stdout + refused.stderr
    assert not target.exists()


@pytest.mark.wide
def test_each_host_gets_the_settings_of_its_group(tmp_path: Path) -> None:
    bridged = [hung(), leg("p2p_off", 5.0), leg("nvlink_only", 47.0)]
    healthy = gpu_host("node03")
    linked = gpu_host("node02", bridged, nvlink_links=4, gpu_name="NVIDIA A40")
    run = write_run(tmp_path, host("node01"), linked, healthy)
    target = tmp_path / "{{ inventory_hostname }}.conf"
    applied = apply(run, target, "node01,node02")
    assert applied.returncode == 0, applied.stdout + applied.stderr
    assert "NCCL_P2P_DISABLE=1" in (tmp_path / "node01.conf").read_text().splitlines()
    assert "NCCL_P2P_LEVEL=NVL" in (tmp_path / "node02.conf").read_text().splitlines()
    refused = apply(run, tmp_path / "x.conf", "node01,node03")
    assert refused.returncode != 0
    assert "it proves no setting for node03" in refused.stdout + refused.stderr


def test_no_run_at_all_is_one_line(tmp_path: Path) -> None:
    refused = apply(tmp_path / "none", tmp_path / "nccl.conf")
    assert refused.returncode != 0
    assert "cannot apply a run" in refused.stdout + refused.stderr
