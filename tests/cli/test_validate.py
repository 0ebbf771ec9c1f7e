"""`hwcheck validate` and `hwcheck report` as their user runs them, on nodes of this machine."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import fastjsonschema
import pytest

from hwcheck.results import schema_check
from hwcheck.results.run_folder import CUT_OFF
from hwcheck.results.schema_check import schema_problem
from tests.node.roots import Root
from tests.quick_ansible.ansible import SERVER

HWCHECK = Path(sys.executable).parent / "hwcheck"
FILES = {
    "run.json",
    "report.html",
    "retry",
    "samples.csv",
    "report.md",
    "junit.xml",
    "nccl.conf",
    "nccl.env",
    "nccl",
    "nodes",
    "hosts.parquet",
    "samples.parquet",
    "findings.parquet",
}
SUMMARY_SCHEMA = Path(schema_check.__file__).parent / "schema/summary.schema.json"
ADDRESSES = ("0000:18:00.0", "0001:2a:00.0")


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """One local host that looks like a node with two GPUs."""
    root = Root(tmp_path / "root")
    for address in ADDRESSES:
        port = root.device(address)
        root.write(port + "/max_link_width", "8\n")
        root.write(port + "/max_link_speed", "32.0 GT/s PCIe\n")
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  Thu Jan 23 UTC 2025\n"
    root.write("proc/driver/nvidia/version", version)
    file = tmp_path / "cluster.yml"
    file.write_text(
        "all:\n  hosts:\n    node01:\n      ansible_connection: local\n"
        '      ansible_python_interpreter: "{{ ansible_playbook_python }}"\n'
        f"      hwcheck_host_root: {root.path}\n      hwcheck_gpus: 2\n"
    )
    return file


def hwcheck(
    folder: Path, *argv: str, library: Path | None = None
) -> subprocess.CompletedProcess[str]:
    env = {"HOME": str(folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    env |= {name: os.environ[name] for name in ("PYTHONPATH", SERVER) if name in os.environ}
    if library is not None:
        env["LD_LIBRARY_PATH"] = str(library)
    return subprocess.run(
        [HWCHECK, *argv], cwd=folder, env=env, capture_output=True, text=True, check=False
    )


def the_run(folder: Path) -> Path:
    (run,) = (folder / "runs").glob("2*")
    return run


def test_a_node_that_passes(inventory: Path, fake_nvml: Path) -> None:
    folder = inventory.parent
    argv = ("validate", "--hosts", str(inventory), "--only", "driver,gpu_count,pcie_link", "--json")
    done = hwcheck(folder, *argv, library=fake_nvml / "new")
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["outcome"], summary["exit_code"]) == ("pass", 0)
    fastjsonschema.compile(json.loads(SUMMARY_SCHEMA.read_text()))(summary)
    (progress,) = [line for line in done.stderr.splitlines() if "node01" in line]
    assert progress.startswith("[1/1] node01: reported after"), "no terminal: one line a change"
    assert "\x1b" not in done.stderr + done.stdout
    run = the_run(folder)
    assert {path.name for path in run.iterdir()} == FILES
    assert schema_problem(json.loads((run / "run.json").read_text()), "run") == ""
    assert ET.parse(run / "junit.xml").getroot().tag == "testsuites"


def test_a_node_that_fails_and_its_report_again(inventory: Path, fake_nvml: Path) -> None:
    folder = inventory.parent
    argv = ("validate", "--hosts", str(inventory), "-v")
    argv += ("--only", "power_cap,persistence_mode")
    done = hwcheck(folder, *argv, library=fake_nvml / "new")
    assert done.returncode == 1, done.stderr
    assert "power_limit_percent" in done.stdout
    assert "node01: power_cap" in done.stderr
    run = the_run(folder)
    markdown = (run / "report.md").read_text()
    for evidence in (
        "power_cap: power_limit_percent 500.5 of 700 W, 72 % (gpu1)",
        "persistence_mode: persistence_mode no, wanted yes (gpu1)",
        "gpu1 is at 0001:2a:00.0",
    ):
        assert f"- node01: {evidence}" in markdown
    assert not re.search("<[a-z]|\x1b", markdown)
    samples = list(csv.DictReader((run / "samples.csv").open(newline="")))
    (limit_w,) = [
        sample
        for sample in samples
        if (sample["subject"], sample["metric"]) == ("gpu1", "power_limit_w")
    ]
    assert (limit_w["host"], limit_w["value"], limit_w["unit"]) == ("node01", "500.5", "W")
    first = {name: (run / name).read_bytes() for name in ("report.html", "report.md", "junit.xml")}
    for name in first:
        (run / name).unlink()
    again = hwcheck(folder, "report", str(run))
    assert again.returncode == 1, again.stderr
    assert {name: (run / name).read_bytes() for name in first} == first
    elsewhere = hwcheck(folder, "report", str(run), "--out", "elsewhere")
    assert elsewhere.returncode == 1, elsewhere.stderr
    assert {name: (folder / "elsewhere" / name).read_bytes() for name in first} == first
    assert (folder / "elsewhere/samples.csv").read_bytes() == (run / "samples.csv").read_bytes()


def test_nvml_that_fails_on_a_node_with_gpus_is_a_failure(inventory: Path) -> None:
    argv = ("validate", "--hosts", str(inventory), "--only", "gpu_count,driver")
    done = hwcheck(inventory.parent, *argv)
    assert done.returncode == 1, done.stderr
    assert "nvml_gpus" in done.stdout


def test_a_host_that_cannot_be_reached_is_not_measured(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yml"
    file.write_text(
        "all:\n  hosts:\n    away: {ansible_host: 127.0.0.1, ansible_port: 1, ansible_user: u}\n"
    )
    done = hwcheck(tmp_path, "validate", "--hosts", str(file))
    assert done.returncode == 3, done.stderr
    assert "away: unreachable after" in done.stderr
    assert "connect" in done.stdout


@pytest.fixture
def ask(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Return what validates three hosts, none of which is there, and returns what it prints."""
    hosts = "".join(
        f"    away{number}: {{ansible_host: 127.0.0.{number}}}\n" for number in (1, 2, 3)
    )
    (tmp_path / "cluster.yml").write_text(
        f"all:\n  vars: {{ansible_port: 1, ansible_user: u}}\n  hosts:\n{hosts}"
    )

    def asked(*words: str) -> tuple[int, str]:
        done = hwcheck(tmp_path, "validate", "--hosts", "cluster.yml", *words)
        return done.returncode, done.stdout

    return asked


def test_what_it_prints_and_keeps_is_taken_again(
    tmp_path: Path, ask: Callable[..., tuple[int, str]]
) -> None:
    code, plan = ask("--dry-run")
    assert code == 0
    assert plan.startswith("3 hosts, 3 at once: away[1-3]\n")
    assert plan.endswith("nothing was done, and no host was reached\n")
    assert ask("--list-hosts") == (0, "away1\naway2\naway3\n")
    assert not (tmp_path / "runs").exists()
    code, text = ask("--limit", "away[2-3]")
    assert (code, "away[2-3]" in text) == (3, True), text
    assert ask("--limit", "@runs/latest/retry", "--list-hosts") == (0, "away2\naway3\n")


def test_a_plan_says_what_is_asked_that_is_unusual(ask: Callable[..., tuple[int, str]]) -> None:
    words = ("--only", "gpu_count", "--dry-run")
    _, usual = ask(*words)
    _, other = ask(*words, "--force", "--load-dtype", "fp32", "-e", "a=hunter2")
    lines = [line for line in usual.splitlines() if line.startswith("asked: ")]
    named = ["profile quick", "duration 20 s", "load_dtype auto", "engine torch"]
    assert lines == [f"asked: {text}" for text in named]
    assert set(other.splitlines()) - set(usual.splitlines()) == {
        "asked: force yes",
        "asked: load_dtype fp32",
    }


def test_a_plan_says_how_long_it_takes_and_what_it_needs(
    tmp_path: Path, ask: Callable[..., tuple[int, str]]
) -> None:
    def plan_of(*words: str) -> str:
        code, plan = ask("--dry-run", "--only", "gpu_count", *words)
        assert code == 0
        return plan

    assert "\nit takes about 36 s; a visit about 12 s, at most " in plan_of("--forks", "1")
    usual = plan_of("--forks", "3")
    assert "\nit takes about 12 s; a visit about 12 s, at most " in usual
    assert "sudo" not in usual
    (tmp_path / "more.yml").write_text("ansible_become: true\nansible_become_user: gpuadmin\n")
    assert "needed: sudo to gpuadmin on away[1-3]" in plan_of("-e", "@more.yml")
    same = ("-e", "@more.yml", "-e", "ansible_user=gpuadmin")
    assert plan_of(*same) == usual, "the same user needs no sudo"
    options = "-C -o ControlMaster=auto -o ControlPersist=60s -o ServerAliveInterval=30"
    assert plan_of("-e", json.dumps({"ansible_ssh_common_args": options})) == usual
    assert ask("-e", "@none.yml", "--dry-run")[0] == 2


def test_ctrl_c_leaves_a_run_that_can_be_rendered(tmp_path: Path, real_ansible: None) -> None:
    file = tmp_path / "cluster.yml"
    script = tmp_path / "python"
    script.write_text("#!/bin/sh\nexec sleep 600\n")
    script.chmod(0o755)
    file.write_text(
        "all:\n  hosts:\n    slow:\n      ansible_connection: local\n"
        f"      ansible_python_interpreter: {script}\n"
    )
    process = subprocess.Popen(
        [HWCHECK, "validate", "--hosts", file, "-v"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "slow: started\n"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 3, err
    assert time.monotonic() - began < 15
    assert "interrupted" in err
    assert "Traceback" not in err
    run = the_run(tmp_path)
    assert json.loads((run / "run.json").read_text())["interrupted"] is True
    assert {path.name for path in run.iterdir()} == FILES
    again = hwcheck(tmp_path, "report", str(run))
    assert again.returncode == 3
    for text in (again.stdout, (run / "report.md").read_text(), (run / "report.html").read_text()):
        words = " ".join(text.split())
        assert "The run was stopped before its end: 0 of 1 host" in words
        assert "none seen" not in words
        assert "No GPU" not in words


def test_after_kill_9_the_report_says_who_was_under_way(tmp_path: Path, real_ansible: None) -> None:
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\necho $$ > {tmp_path}/pid\nexec sleep 600\n")
    script.chmod(0o755)
    inventory = tmp_path / "cluster.yml"
    inventory.write_text(
        "all:\n  hosts:\n    away: {ansible_host: 127.0.0.1, ansible_port: 1}\n    slow:\n"
        f"      ansible_connection: local\n      ansible_python_interpreter: {script}\n"
        "    waits: {ansible_host: 127.0.0.2, ansible_port: 1}\n"
    )
    argv = [HWCHECK, "validate", "--hosts", inventory, "--forks", "1"]
    process = subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 60
        while not list(tmp_path.glob("runs/*/nodes/slow.json")):
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        process.kill()
        process.wait()
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)
    done = hwcheck(tmp_path, "report", "--json", str(the_run(tmp_path)))
    assert done.returncode == 3, done.stderr
    summary = json.loads(done.stdout)
    reasons = {host["host"]: host["reason"] for host in summary["host_results"]}
    assert reasons["away"].startswith("unreachable")
    assert reasons["slow"] == f"lost: {CUT_OFF}"
    assert reasons["waits"].startswith("not visited: the run itself ended before its turn")
    assert "The run has no end" in summary["notes"][0]
    (slow,) = [action for action in summary["actions"] if action["hosts"] == ["slow"]]
    assert slow["cause"].startswith("hwcheck itself was killed")


def test_a_disk_that_fills_up_is_one_line(small_disk: Path) -> None:
    inventory = small_disk / "away.yml"
    inventory.write_text("all: {hosts: {away: {ansible_host: 127.0.0.1, ansible_port: 1}}}\n")
    done = hwcheck(small_disk.parent, "validate", "--hosts", str(inventory), "--out", "disk/runs")
    assert done.returncode == 2
    *progress, said = done.stderr.splitlines()
    assert said.startswith("hwcheck: cannot write to the run folder: disk/runs/")
    assert said.endswith(": No space left on device; make room there and run again")
    assert [text.partition(" after")[0] for text in progress] == ["[1/1] away: unreachable"]
    assert not list(small_disk.rglob("*.new"))


def test_checks_lists_limits_with_their_sources(tmp_path: Path) -> None:
    done = hwcheck(tmp_path, "checks", "power_cap", "all_reduce")
    assert done.returncode == 0
    for text in ("power_cap", "power_limit_w [W]", "nvmlDeviceGetEnforcedPowerLimit", "loads the"):
        assert text in done.stdout
