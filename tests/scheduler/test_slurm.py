"""What a real Slurm says of its nodes, and what drain and resume do to them there."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from hwcheck.inventory.expectations import HostSettings
from hwcheck.inventory.inventory import Host
from hwcheck.scheduler.actions import Drains, drain, resume, states, wait_until_free
from hwcheck.scheduler.records import (
    BUSY,
    DOWN,
    DRAINED,
    DRAINED_BY_OTHER,
    IDLE,
    SLURM,
    UNKNOWN,
    Amount,
)
from tests.lab.waiting import wait_until
from tests.scheduler.slurm_cluster import SlurmCluster

pytestmark = pytest.mark.timeout(180)

HOSTS = [Host(f"gpu{number}", f"10.0.0.{number}") for number in range(1, 5)]
ALL = {host.name: "nvlink: 2 links down" for host in HOSTS}
REASON = "hwcheck: sweep: nvlink: 2 links down"


def drained(cluster: SlurmCluster) -> list[str]:
    return [name for name in cluster.names if "drain" in cluster.state(name)]


def lines(drains: Drains) -> list[dict[str, object]]:
    if not drains.log.exists():
        return []
    return [json.loads(line) for line in drains.log.read_text().splitlines()]


@pytest.fixture
def drains(tmp_path: Path) -> Drains:
    return Drains(SLURM, "sweep", "runs/20261123", tmp_path / "runs" / "drains.jsonl")


def test_an_idle_node_a_node_with_a_job_and_a_host_that_is_no_node(slurm: SlurmCluster) -> None:
    job = slurm.submit("gpu2")
    found = states(SLURM, [*HOSTS, Host("login", "10.0.0.99")])
    assert {name: node.state for name, node in found.items()} == {
        "gpu1": IDLE,
        "gpu2": BUSY,
        "gpu3": IDLE,
        "gpu4": IDLE,
        "login": UNKNOWN,
    }
    assert (found["gpu2"].jobs, found["gpu2"].at_work) == ((job,), True)
    assert found["gpu2"].line() == f"busy: job {job}"
    assert (found["gpu1"].partitions, found["gpu4"].partitions) == (("batch",), ("debug",))


def test_a_node_whose_only_job_is_suspended_is_busy(slurm: SlurmCluster) -> None:
    job = slurm.submit("gpu1")
    slurm.run("scontrol", "suspend", job)
    wait_until(lambda: slurm.state("gpu1") == "idle", 20)  # to Slurm; the job's GPUs are not
    found = states(SLURM, HOSTS)["gpu1"]
    assert (found.state, found.jobs) == (BUSY, (job,))


def test_the_jobs_of_all_users_count_whatever_the_caller_likes_to_see(
    slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = slurm.submit("gpu1")
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    monkeypatch.setenv("SINFO_PARTITION", "debug")
    monkeypatch.setenv("SQUEUE_FORMAT", "%j")
    assert slurm.run("squeue", "--noheader") == ""
    assert states(SLURM, HOSTS)["gpu1"].jobs == (job,)


def test_who_drained_a_node_and_why_also_where_the_reason_tries_to_be_a_node(
    slurm: SlurmCluster,
) -> None:
    reason = "fan | gpu2||idle|\ngpu3 idle none\n"
    slurm.run("scontrol", "update", "nodename=gpu1", "state=drain", f"reason={reason}")
    found = states(SLURM, HOSTS)
    assert found["gpu1"].state == DRAINED_BY_OTHER
    assert found["gpu1"].line() == "drained by root: fan | gpu2||idle| gpu3 idle none"
    assert found["gpu1"].since.startswith("20")
    assert {found[name].state for name in ("gpu2", "gpu3", "gpu4")} == {IDLE}


def test_a_node_reserved_for_maintenance_is_somebody_elses(slurm: SlurmCluster) -> None:
    words = ("starttime=now", "duration=10", "flags=maint", "users=root", "nodes=gpu3")
    slurm.run("scontrol", "create", "reservation", "reservationname=firmware", *words)
    try:
        wait_until(lambda: "maint" in slurm.state("gpu3"), 20)
        found = states(SLURM, HOSTS)["gpu3"]
    finally:
        slurm.run("scontrol", "delete", "reservationname=firmware")
    assert found.state == DRAINED_BY_OTHER
    assert found.line() == "drained by somebody else: is reserved for maintenance"


def test_a_node_that_is_down(slurm: SlurmCluster, drains: Drains) -> None:
    slurm.run("scontrol", "update", "nodename=gpu1", "state=down", "reason=fell over")
    try:
        found = states(SLURM, HOSTS)["gpu1"]
        (action,) = drain(drains, HOSTS, {"gpu1": "x"}, Amount(4), dry_run=False)
    finally:
        slurm.run("scontrol", "update", "nodename=gpu1", "state=resume")
    assert (found.state, found.line()) == (DOWN, "down: fell over")
    assert action.line() == "gpu1: drain: refused: it is down: fell over"


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    slurm: SlurmCluster, drains: Drains
) -> None:
    actions = drain(drains, HOSTS, ALL, Amount(4), dry_run=True)
    assert [action.line() for action in actions] == [
        f"gpu{number}: drain: would be done: {REASON}" for number in range(1, 5)
    ]
    assert drained(slurm) == []
    assert not drains.log.parent.exists()


def test_drain_and_resume_and_the_log_of_both(slurm: SlurmCluster, drains: Drains) -> None:
    job = slurm.submit("gpu2")
    wanted = {"gpu2": "nvlink: 2 links down", "gpu4": "x"}
    actions = drain(drains, HOSTS, wanted, Amount(4), dry_run=False)
    assert [action.outcome for action in actions] == ["done", "done"]
    assert drained(slurm) == ["gpu2", "gpu4"]
    found = states(SLURM, HOSTS)["gpu2"]
    assert (found.state, found.jobs) == (DRAINED, (job,))
    assert found.line() == f"drained by root: {REASON} (job {job} still on it)"
    given_back = resume(drains, HOSTS, ["gpu4", "gpu1"], dry_run=False)
    assert [action.line() for action in given_back] == [
        "gpu4: resume: done: hwcheck: sweep: x",
        "gpu1: resume: refused: not drained by hwcheck for sweep: it is idle",
    ]
    assert drained(slurm) == ["gpu2"]
    written = lines(drains)
    assert [(each["action"], each["host"]) for each in written] == [
        ("drain", "gpu2"),
        ("drain", "gpu4"),
        ("resume", "gpu4"),
    ]
    assert written[0]["why"] == REASON
    assert written[0]["run"] == "runs/20261123"
    assert written[0]["before"] == {
        "state": "busy",
        "raw": "allocated",
        "jobs": [job],
        "reason": "",
    }


def test_what_somebody_else_drained_is_neither_drained_nor_resumed(
    slurm: SlurmCluster, drains: Drains
) -> None:
    slurm.run("scontrol", "update", "nodename=gpu1", "state=drain", "reason=RMA 4711")
    before = slurm.run("sinfo", "--list-reasons", "--noheader")
    (refused,) = drain(drains, HOSTS, {"gpu1": "x"}, Amount(4), dry_run=False)
    (kept,) = resume(drains, HOSTS, ["gpu1"], dry_run=False)
    assert refused.line() == "gpu1: drain: refused: it is drained by root: RMA 4711"
    assert kept.outcome == "refused"
    assert slurm.run("sinfo", "--list-reasons", "--noheader") == before
    assert lines(drains) == []


def test_a_drain_for_another_purpose_is_not_resumed(slurm: SlurmCluster, drains: Drains) -> None:
    drain(drains, HOSTS, {"gpu1": "x"}, Amount(4), dry_run=False)
    rollout = Drains(SLURM, "rollout", "runs/1", drains.log)
    (stays,) = drain(rollout, HOSTS, {"gpu1": "y"}, Amount(4), dry_run=False)
    assert (stays.outcome, stays.why) == ("done", "hwcheck: sweep: x")
    (refused,) = resume(rollout, HOSTS, ["gpu1"], dry_run=False)
    assert refused.outcome == "refused"
    assert drained(slurm) == ["gpu1"]


@pytest.mark.parametrize(
    ("at_most", "out", "said"),
    [
        ("2", ["gpu1", "gpu2"], "2 of 4 nodes of all take no jobs; --max-drained 2 allows 2"),
        # 75 % of four are three, of the three in batch two, of the one in debug none.
        ("75%", ["gpu1", "gpu2"], "2 of 3 nodes of the partition batch take no jobs"),
        ("100%", ["gpu1", "gpu2", "gpu3", "gpu4"], ""),
        ("10%", [], "0 of 4 nodes of all take no jobs; --max-drained 10% allows 0"),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_the_bound_holds_when_every_node_fails(
    slurm: SlurmCluster, drains: Drains, at_most: str, out: list[str], said: str, dry_run: bool
) -> None:
    actions = drain(drains, HOSTS, ALL, Amount.parse(at_most), dry_run=dry_run)
    done = [action.host for action in actions if action.outcome != "refused"]
    assert done == out
    assert drained(slurm) == ([] if dry_run else out)
    refused = [action.why for action in actions if action.outcome == "refused"]
    assert len(refused) == 4 - len(out)
    assert not refused or said in refused[0]


def test_nodes_that_others_took_out_of_service_count(slurm: SlurmCluster, drains: Drains) -> None:
    slurm.run("scontrol", "update", "nodename=gpu3", "state=drain", "reason=RMA")
    actions = drain(drains, HOSTS, ALL, Amount(2), dry_run=False)
    assert [action.outcome for action in actions] == ["done", "refused", "refused", "refused"]
    assert drained(slurm) == ["gpu1", "gpu3"]


def test_a_host_whose_node_the_inventory_names(slurm: SlurmCluster) -> None:
    here = Host("node-a", "10.9.9.9", settings=HostSettings(scheduler_node="gpu3"))
    assert states(SLURM, [here])["node-a"].node == "gpu3"


def test_it_waits_until_the_jobs_have_ended(slurm: SlurmCluster, drains: Drains) -> None:
    job = slurm.submit("gpu1")
    drain(drains, HOSTS, {"gpu1": "x"}, Amount(4), dry_run=False)
    assert list(wait_until_free(SLURM, HOSTS, 0.2, threading.Event(), 0.1)) == ["gpu1"]
    stop = threading.Event()
    stop.set()
    assert list(wait_until_free(SLURM, HOSTS, 60, stop)) == ["gpu1"]
    ender = threading.Timer(0.5, slurm.cancel, [job])
    ender.start()
    assert wait_until_free(SLURM, HOSTS, 60, threading.Event(), 0.1) == {}
    ender.join()
