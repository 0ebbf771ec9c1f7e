"""``hwcheck sweep`` over the nodes of a real Slurm: who is skipped, drained and given back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from hwcheck.cli import sweep
from hwcheck.fleet.sweep import measuring
from hwcheck.fleet.sweep.watch import SchedulerWatch
from hwcheck.results.multi_host import MultiHostRecord, read_multi_host
from hwcheck.results.run_folder import GIVEN_UP, read_run
from hwcheck.run import measure
from hwcheck.run.multi_host.participants import Participants
from tests.lab.conftest import namespaces
from tests.lab.lab import Lab
from tests.lab.waiting import wait_until
from tests.scheduler.nights import Nights
from tests.scheduler.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

__all__ = ["namespaces"]

HOSTS = ("gpu1", "gpu2", "gpu3", "gpu4")
ALWAYS = "0.001s"
ASKED = "nightly: asked: profile quick; load_dtype auto; engine torch\n"
DRAIN = ("--drain-failed", "--max-drained", "3")


@pytest.fixture(scope="module")
def lab(namespaces: None) -> Iterator[Lab]:
    with Lab(HOSTS) as made:
        yield made


@pytest.fixture
def nights(
    lab: Lab,
    slurm: SlurmCluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> Nights:
    monkeypatch.chdir(tmp_path)
    Path("notify.yml").write_text(f"metrics: {tmp_path}/hwcheck.prom\n")
    monkeypatch.setattr(measuring, "SchedulerWatch", partial(SchedulerWatch, poll_s=0.2))
    return Nights(lab, "slurm", monkeypatch, capfd)


def drained(slurm: SlurmCluster) -> list[str]:
    return [name for name in HOSTS if "drain" in slurm.state(name)]


def visited(nights: Nights) -> set[str]:
    return {record.host for record in read_run(Path("runs") / nights.run).records}


def test_a_node_with_a_job_is_skipped_and_comes_first_the_next_time(
    nights: Nights, slurm: SlurmCluster
) -> None:
    nights.hosts()
    job = slurm.submit("gpu2")
    done = nights.sweep()
    assert done.code == 0, done.err
    assert "nightly: 4 hosts due, 3 measured; at work: gpu2" in done.err
    assert visited(nights) == {"gpu1", "gpu3", "gpu4"}
    slurm.cancel(job)
    ahead = nights.sweep("--dry-run")
    assert ahead.out == f"nightly: batch 1: gpu2: at work when it was its turn\n{ASKED}"


SLOW = '''"""A check that takes longer than any test."""

import subprocess
from typing import Iterator

from hwcheck.contract.check import Metric, Remedy, check
from hwcheck.node.node import Node
from hwcheck.contract.wire import Sample


@check(
    metrics=[Metric("slow_s", "s", "how long it took")],
    remedy=Remedy(cause="none", fix="none", command="true"),
    gpu=False,
)
def slow(node: Node) -> Iterator[Sample]:
    """Take long on one node."""
    if open("/etc/hostname").read().strip() == "gpu2":
        subprocess.run(["sleep", "250"], check=True)
    yield Sample("slow_s", 0.0, "s")
'''


def test_a_visit_is_given_up_at_once_when_a_job_comes_and_leaves_nothing(
    nights: Nights, slurm: SlurmCluster, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights.hosts()
    Path("hwcheck/checks").mkdir(parents=True)
    Path("hwcheck/checks/slow.py").write_text(SLOW)
    monkeypatch.setattr(sweep, "checks_of", lambda level, every: ("file_systems", "slow"))

    def is_slow() -> bool:
        records = Path("runs").glob("*/nodes/gpu2.json")
        return any(json.loads(each.read_text())["report"] for each in records)

    jobs: list[str] = []

    def job() -> None:
        wait_until(is_slow, 120)
        jobs.append(slurm.submit("gpu2"))

    submitting = Thread(target=job)
    submitting.start()
    done = nights.sweep("--notify", "notify.yml")
    submitting.join()
    (record,) = [each for each in read_run(Path("runs") / nights.run).records if each.given_up]
    assert (record.host, record.state) == ("gpu2", "partial")
    assert record.reason.text.startswith(f"{GIVEN_UP}: busy")
    assert record.duration_s < 200
    wait_until(lambda: not lab.nodes["gpu2"].visitors(), 20)
    assert "nightly: 4 hosts due, 3 measured; at work: gpu2" in done.err
    assert set(nights.state.waiting) == {"gpu2"}
    assert 'host="gpu2"' not in Path("hwcheck.prom").read_text(), "nobody is told of it"
    slurm.cancel(jobs[0])
    ahead = nights.sweep("--dry-run")
    assert ahead.out == f"nightly: batch 1: gpu2: at work when it was its turn\n{ASKED}"


WEEKLY = ("--level", "weekly", "--max-unavailable", "100%", "--notify", "notify.yml")


def together() -> list[MultiHostRecord]:
    """What ran over several hosts, in the order of the runs."""
    records = [read_multi_host(path.parent) for path in sorted(Path("runs").glob("*/run.json"))]
    return [each for each in records if each is not None]


@pytest.mark.wide
def test_hosts_that_were_well_run_together_and_again_when_their_links_are_due(
    nights: Nights, slurm: SlurmCluster, lab: Lab
) -> None:
    nights.hosts(bad=("gpu4",))
    first = nights.typed("sweep run", *WEEKLY)
    assert "weekly: links: 0 of 1 classes measured within 3w" in first.err
    assert (first.code, together()) == (1, [])
    slurm.run("scontrol", "update", "nodename=gpu3", "state=drain", "reason=RMA 4711")
    ahead = nights.typed("sweep run", *WEEKLY[:4], "--dry-run")
    assert ahead.out.splitlines()[0] == "weekly: pairs and rails over gpu[1-2]"
    second = nights.typed("sweep run", *WEEKLY)
    (record,) = together()
    assert (record.scopes, record.hosts, record.finished) == (
        ("pairs", "rails"),
        ("gpu1", "gpu2"),
        True,
    )
    assert "weekly: links: 1 of 1 classes measured within 3w" in second.err
    slurm.resume()
    nights.typed("sweep run", *WEEKLY)
    assert len(together()) == 1, "a class of links that was measured is not due"
    wait_until(lambda: not any(node.visitors() for node in lab.nodes.values()), 20)


RESERVATION = "reservation=exam"


@pytest.mark.wide
def test_a_node_that_is_reserved_ends_what_hosts_run_together_and_accuses_nobody(
    nights: Nights, slurm: SlurmCluster, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    nights.hosts()
    nights.typed("sweep run", *WEEKLY)

    def opened(*words: Any, **named: Any) -> Participants:
        of = ("users=root", "nodes=gpu2", "starttime=now", "duration=10")
        slurm.run("scontrol", "create", RESERVATION, *of)
        return Participants(*words, **named)

    monkeypatch.setattr(measure, "Participants", opened)
    done = nights.typed("sweep run", *WEEKLY)
    slurm.run("scontrol", "delete", RESERVATION)
    assert done.code == 3
    assert f"hwcheck: gpu2: {GIVEN_UP}: reserved" in done.err
    (record,) = together()
    assert (record.finished, record.suspects) == (False, ())
    wait_until(lambda: not any(node.visitors() for node in lab.nodes.values()), 20)
    assert 'host="gpu' not in Path("hwcheck.prom").read_text(), "nobody is told of it"


def test_a_node_that_fails_is_drained_first_as_a_dry_run_then_and_given_back_when_repaired(
    nights: Nights, slurm: SlurmCluster
) -> None:
    nights.hosts(bad=("gpu1",), every=ALWAYS)
    told = nights.sweep("--drain-failed", "dry-run", "--max-drained", "3")
    reason = f"hwcheck: sweep: nightly {nights.run}: GPUs are missing: off the bus"
    assert told.code == 1, told.err
    assert f"hwcheck: gpu1: drain: would be done: {reason}" in told.err
    assert (drained(slurm), nights.log) == ([], [])

    done = nights.sweep(*DRAIN)
    reason = reason.replace(reason.split()[3], f"{nights.run}:")
    assert f"hwcheck: gpu1: drain: done: {reason}" in done.err
    assert drained(slurm) == ["gpu1"]
    assert slurm.run("sinfo", "-h", "-R", "-n", "gpu1", "-o%E").startswith(reason)
    (line,) = nights.log
    assert (line["run"], line["purpose"]) == (nights.run, "sweep")
    assert line["before"]["state"] == "idle"

    early = nights.typed("sweep release")
    assert early.code == 1
    assert early.out == (
        f"gpu1: stays drained: it failed in {nights.run}, and was not measured well at nightly"
        " since\n"
    )
    nights.hosts()
    assert nights.validate().code == 0
    would = nights.typed("sweep release", "--dry-run")
    assert would.out.startswith(f"gpu1: resume: would be done: {reason}")
    assert drained(slurm) == ["gpu1"]
    released = nights.typed("sweep release")
    assert (released.code, released.out[:19]) == (0, "gpu1: resume: done:")
    wait_until(lambda: slurm.state("gpu1") == "idle", 20)
    assert nights.actions == [("drain", "gpu1", "done"), ("resume", "gpu1", "done")]
    assert nights.log[1]["run"] == nights.run
    assert nights.typed("sweep release").out == "no sweep has drained any of these\n"


def test_a_node_is_drained_once_and_one_that_fails_still_stays_drained_without_a_word(
    nights: Nights, slurm: SlurmCluster
) -> None:
    nights.hosts(bad=("gpu1",), every=ALWAYS)
    nights.sweep(*DRAIN)
    again = nights.sweep(*DRAIN)
    assert "nightly: 4 hosts due, 4 measured" in again.err
    assert "drain" not in again.err
    assert nights.actions == [("drain", "gpu1", "done")]
    assert "failed in" in nights.typed("sweep release").out
    assert drained(slurm) == ["gpu1"]


def test_the_bound_holds_when_every_node_fails_and_people_are_told(
    nights: Nights, slurm: SlurmCluster
) -> None:
    nights.hosts(bad=HOSTS)
    done = nights.sweep("--drain-failed", "--max-drained", "50%", "--notify", "notify.yml")
    # Half of four are two, of the three in batch one, of the one in debug none.
    assert drained(slurm) == ["gpu1"]
    said = "1 of 3 nodes of the partition batch take no jobs; --max-drained 50% allows 1"
    assert f"hwcheck: gpu2: drain: refused: {said}" in done.err
    assert nights.actions == [("drain", "gpu1", "done")]
    assert nights.not_drained == ["gpu2", "gpu3", "gpu4"]
    status = nights.typed("sweep status")
    assert "failed, and not drained: gpu[2-4]\n" in status.out
    # The one that is repaired and given back lets the next be drained.
    nights.hosts(bad=("gpu2", "gpu3", "gpu4"))
    nights.validate()
    nights.typed("sweep release")
    assert drained(slurm) == []
    ahead = nights.sweep("--dry-run", *DRAIN)
    assert "to be drained: gpu2: nightly 20" in ahead.out
    wait_until(lambda: slurm.state("gpu1") == "idle", 20)
    nights.sweep("--drain-failed", "--max-drained", "50%", "--notify", "notify.yml")
    assert drained(slurm) == ["gpu2"]
    assert set(nights.state.undrained) == {"gpu3", "gpu4"}


def test_what_somebody_else_drained_stays_as_it_is(nights: Nights, slurm: SlurmCluster) -> None:
    nights.hosts(bad=("gpu3",))
    slurm.run("scontrol", "update", "nodename=gpu3", "state=drain", "reason=RMA 4711")
    before = slurm.run("sinfo", "--list-reasons", "--noheader")
    skipped = nights.sweep(*DRAIN)
    assert "drained by other: gpu3" in skipped.err
    done = nights.sweep(*DRAIN, "--drained")
    assert done.code == 1
    assert "gpu3: it failed; it takes no jobs: it is drained by root: RMA 4711" in done.err
    assert slurm.run("sinfo", "--list-reasons", "--noheader") == before
    assert (nights.log, nights.state.undrained) == ([], {})
    nights.hosts()
    nights.validate()
    nights.typed("sweep release")
    assert slurm.run("sinfo", "--list-reasons", "--noheader") == before


def test_what_somebody_gave_back_is_drained_again_only_for_what_is_measured_since(
    nights: Nights, slurm: SlurmCluster
) -> None:
    nights.hosts(bad=("gpu1",))
    nights.sweep(*DRAIN)
    slurm.resume()
    assert "no host is due" in nights.sweep(*DRAIN, "--dry-run").out
    nights.sweep(*DRAIN)
    assert drained(slurm) == []
    nights.hosts(bad=("gpu1",), every=ALWAYS)
    nights.sweep(*DRAIN)
    assert drained(slurm) == ["gpu1"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--drain-failed",), "--max-drained 10% of 4 nodes of slurm is none; say a count, or 25%"),
        (("--drain-failed", "--max-drained", "x"), "--max-drained 'x' is neither a count (3)"),
        (("--drain-failed", "yes"), "--drain-failed yes: it takes dry-run, or nothing"),
        (("--max-drained", "2"), "--max-drained: it goes with --drain-failed"),
    ],
)
def test_what_cannot_be_is_one_line_before_anything_is_measured(
    nights: Nights, words: tuple[str, ...], said: str
) -> None:
    nights.hosts()
    done = nights.sweep(*words)
    assert (done.code, done.err.count("\n")) == (2, 1), done.err
    assert said in done.err
    assert not Path("runs").exists()
