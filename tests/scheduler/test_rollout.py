"""``hwcheck rollout --drain``: over real hosts that are nodes of a real Slurm."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.lab.conftest import namespaces
from tests.lab.lab import Lab
from tests.lab.provisioned import BIN, Site, conf, logins
from tests.lab.scenarios_on_nodes import prepare
from tests.lab.waiting import wait_until
from tests.scheduler.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

ROLL_OUT = ("rollout", "--playbook", "play.yml", "--only", "gpu_count,gpu_lost,serials")
DRAIN = ("--drain", "slurm", "--max-drained", "3", "--drain-timeout", "60s")
HOSTS = ("gpu1", "gpu2")

__all__ = ["namespaces"]


@pytest.fixture(scope="module")
def site(namespaces: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two simulated hosts; the first has lost a GPU."""
    with Lab(HOSTS, prepare=prepare("h100x8", {"gpu1": "gpu_lost"})) as lab:
        yield Site(lab, tmp_path_factory.mktemp("site"))


@pytest.fixture(autouse=True)
def untouched(site: Site, slurm: SlurmCluster) -> None:
    """Let nothing be written to the hosts yet."""
    site.write()
    for node in site.lab.nodes.values():
        node.ask(["rm", "-f", "/etc/nccl.conf"])


def drains(site: Site) -> list[tuple[str, str, str]]:
    """Return what the newest rollout did, by the log."""
    text = (site.folder / "runs" / "drains.jsonl").read_text()
    listed = [json.loads(line) for line in text.splitlines()]
    run = site.newest().name
    return [(each["action"], each["host"], each["why"]) for each in listed if each["run"] == run]


def record(site: Site) -> dict[str, Any]:
    return site.record("rollout.json")


def folders(site: Site) -> set[Path]:
    return set((site.folder / "runs").glob("2*"))


def test_what_is_well_is_given_back_and_what_is_not_stays_drained(
    site: Site, slurm: SlurmCluster
) -> None:
    done = site.run(*ROLL_OUT, *DRAIN, "--canary", "gpu2")
    assert done.returncode == 1, done.stdout + done.stderr
    ok = "drain 0, wait 0, provision 0, state 0, validate"
    assert f"canary: done: gpu2 (exit codes: {ok} 0, resume 0)\n" in done.stdout
    assert f"batch1: stopped: gpu1 (exit codes: {ok} 1)\n" in done.stdout
    assert "hwcheck: left drained in slurm: gpu1; the next rollout resumes" in done.stderr
    assert slurm.state("gpu1") == "idle+drain"
    wait_until(lambda: slurm.state("gpu2") == "idle", 20)  # once Slurm has reached it again
    assert record(site)["drained"] == {"scheduler": "slurm", "hosts": ["gpu1"]}
    reason = f"hwcheck: rollout: {site.newest().name}"
    assert drains(site) == [
        ("drain", "gpu2", reason),
        ("resume", "gpu2", reason),
        ("drain", "gpu1", reason),
    ]


def test_a_job_that_does_not_end_stops_it_before_the_host_is_touched(
    site: Site, slurm: SlurmCluster
) -> None:
    job = slurm.submit("gpu2")
    canary = site.lab.nodes["gpu2"]
    before = logins(canary)
    words = ("--drain", "slurm", "--max-drained", "3", "--drain-timeout", "1s")
    done = site.run(*ROLL_OUT, *words, "--canary", "gpu2")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "canary: stopped: gpu2 (exit codes: drain 0, wait 3)\n" in done.stdout
    assert f"(job {job} still on it): given up after 1 s" in done.stderr
    assert logins(canary) == before
    assert slurm.state("gpu2") == "allocated+drain"
    slurm.cancel(job)
    again = site.run(*ROLL_OUT, *DRAIN, "--limit", "gpu2")
    assert again.returncode == 0, again.stdout + again.stderr
    wait_until(lambda: slurm.state("gpu2") == "idle", 20)
    assert record(site)["drained"] == {"scheduler": "slurm", "hosts": []}


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_ended_while_it_waits_it_leaves_the_node_drained_and_says_so(
    site: Site, slurm: SlurmCluster, real_ansible: None, how: signal.Signals
) -> None:
    slurm.submit("gpu2")
    before = folders(site)
    words = [BIN / "hwcheck", *ROLL_OUT, *DRAIN, "--hosts", "cluster.yml", "--canary", "gpu2"]
    with subprocess.Popen(
        words, cwd=site.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        wait_until(lambda: slurm.state("gpu2") == "allocated+drain", 60)
        wait_until(lambda: any(stages(folder) for folder in folders(site) - before), 30)
        process.send_signal(how)
        errors = process.stderr.read()
    assert record(site)["drained"] == {"scheduler": "slurm", "hosts": ["gpu2"]}
    assert slurm.state("gpu2") == "allocated+drain"
    assert conf(site.lab.nodes["gpu2"]) == ""
    if how == signal.SIGINT:
        assert process.returncode == 130
        assert "hwcheck: left drained in slurm: gpu2; the next rollout resumes" in errors
        assert [each["outcome"] for each in record(site)["batches"]] == ["stopped", "untouched"]


def stages(folder: Path) -> dict[str, int]:
    """Return the exit codes of the first batch."""
    path = folder / "rollout.json"
    codes: dict[str, int] = (
        json.loads(path.read_text())["batches"][0]["stages"] if path.exists() else {}
    )
    return codes


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--drain", "slurm", "--max-drained", "3"), "gpu1: drain: refused: it is drained by root"),
        (("--drain", "slurm", "--limit", "gpu2", "--max-drained", "1"), "1 of 4 nodes of all take"),
        (("--drain", "slurm", "--limit", "gpu2"), "--max-drained 25% allows 1"),
        (("--drain", "slurm", "--max-drained", "x"), "--max-drained 'x' is neither a count (3)"),
        (("--drain", "slurm", "--drain-timeout", "x"), "--drain-timeout x: it takes seconds"),
        (("--drain", "torque"), "--drain torque: it is one of slurm"),
        (("--drain",), "--drain: hwcheck_scheduler is not set; or say --drain slurm"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_changed(
    site: Site, slurm: SlurmCluster, words: tuple[str, ...], said: str
) -> None:
    slurm.run("scontrol", "update", "nodename=gpu1", "state=drain", "reason=RMA 4711")
    before, there = slurm.run("sinfo", "--list-reasons", "--noheader"), folders(site)
    done = site.run(*ROLL_OUT, *words)
    assert done.returncode == 2, done.stdout + done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert (folders(site), conf(site.lab.nodes["gpu2"])) == (there, "")
    assert slurm.run("sinfo", "--list-reasons", "--noheader") == before


def test_a_host_that_is_no_node_is_refused_and_the_inventory_names_the_scheduler(
    site: Site, slurm: SlurmCluster
) -> None:
    site.write({"gpu1": {"hwcheck_scheduler_node": "gpu9"}}, hwcheck_scheduler="slurm")
    done = site.run(*ROLL_OUT, "--drain")
    assert done.returncode == 2
    assert done.stderr == ("hwcheck: gpu1: hwcheck_scheduler_node: slurm has no node gpu9\n")
