"""Slurm's programs that are missing, hang, fail, or answer nonsense: one line, and nothing done."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hwcheck.errors import UsageError
from hwcheck.inventory.inventory import Host
from hwcheck.scheduler import actions, programs
from hwcheck.scheduler.actions import Drains, drain, drained_for, states, wait_until_free
from hwcheck.scheduler.records import DRAINED_BY_OTHER, SLURM, Amount
from hwcheck.scheduler.slurm import MOST_NODES
from tests.lab.waiting import wait_until

HOSTS = [Host("gpu1", "10.0.0.1"), Host("gpu2", "10.0.0.2")]

SINFO = r"""
# Prints a record of each node for the format it is given, as sinfo --Format does.
for word; do case $word in --Format=*) format=${word#--Format=} ;; esac; done
mark=${format##*:}
case $OLD$format in 1*StateComplete*) echo "Invalid format: StateComplete" >&2; echo; exit ;; esac
node() { for value; do printf '%s%s' "$value" "$mark"; done; echo; }
"""
"""The beginning of a sinfo; a node's line: name, address, host name, partition, who, since, state,
reason."""
TWO = """
node gpu1 10.0.0.1 gpu1 batch Unknown Unknown idle none
node gpu2 10.0.0.2 gpu2 batch Unknown Unknown idle none
"""

Install = Callable[..., None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Return what puts programs of these names and lines in place of all others of Slurm."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")

    def put(**lines: str) -> None:
        for name in ("sinfo", "squeue", "scontrol"):
            path = folder / name
            path.write_text(f"#!/bin/sh\n{lines.get(name, '')}\n")
            path.chmod(0o755)

    return put


@pytest.fixture
def drains(tmp_path: Path) -> Drains:
    return Drains(SLURM, "sweep", "runs/1", tmp_path / "drains.jsonl")


def test_a_program_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match=r"^squeue: not found on this machine; run hwcheck where"):
        states(SLURM, HOSTS)


def test_a_program_in_the_current_folder_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "squeue").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f":{tmp_path}/nothing")
    with pytest.raises(UsageError, match="squeue: not found"):
        states(SLURM, HOSTS)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ({"squeue": "echo slurm_load_jobs error: down >&2; exit 1"}, "squeue: slurm_load_jobs"),
        ({"sinfo": "echo slurm_load_partitions: no >&2; exit 1"}, "sinfo: slurm_load_partitions"),
        ({"sinfo": "exit 1"}, "sinfo: it failed and did not say why"),
        ({"sinfo": "echo PARTITION AVAIL"}, "sinfo: an answer that cannot be read: 'PARTITION"),
        ({"sinfo": SINFO + "node gpu1 10.0.0.1"}, "sinfo: an answer that cannot be read"),
        ({"sinfo": SINFO + "echo hello"}, "sinfo: an answer that cannot be read: 'hello'"),
        (
            {"sinfo": SINFO + "node 'gpu[1-9]' a b c d e idle none"},
            r"sinfo: 'gpu\[1-9\]' is no node's name",
        ),
        ({"sinfo": SINFO + "node ALL a b c d e idle none"}, "sinfo: 'ALL' is no node's name"),
        ({"sinfo": "echo no such field >&2; echo"}, "sinfo: no such field"),
        ({"squeue": "echo JOBID"}, "squeue: an answer that cannot be read: 'JOBID'"),
        ({"squeue": "head -c 1000 /dev/urandom"}, "squeue: an answer that cannot be read"),
    ],
)
def test_nonsense_is_one_line(install: Install, lines: dict[str, str], said: str) -> None:
    install(**lines)
    with pytest.raises(UsageError, match=said) as caught:
        states(SLURM, HOSTS)
    assert "\n" not in str(caught.value)
    assert str(caught.value).isprintable()


JOB = """
for word; do case $word in --format=*) format=${word#--format=} ;; esac; done
mark=${format%%%N*}
printf '%s%s %s%s %s\\n' "$mark" 'LIST' "$mark" 4711 "$mark"
"""


@pytest.mark.parametrize("listed", ["gpu[1-99999999]", "gpu[0-999]n[0-999]", "gpu[1", "a b]["])
def test_a_list_of_nodes_that_is_none_or_has_no_end(install: Install, listed: str) -> None:
    assert MOST_NODES < 999 * 999
    install(sinfo=SINFO + TWO, squeue=JOB.replace("LIST", listed))
    with pytest.raises(UsageError, match=r"squeue: .* is no list of nodes"):
        states(SLURM, HOSTS)


def test_a_job_on_many_nodes_is_on_each(install: Install) -> None:
    install(sinfo=SINFO + TWO, squeue=JOB.replace("LIST", "gpu[1-3,007]"))
    assert [node.jobs for node in states(SLURM, HOSTS).values()] == [("4711",), ("4711",)]


def test_slurm_before_21_08_has_a_word_in_place_of_flags(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLD", "1")
    drained = "node gpu1 10.0.0.1 gpu1 batch root 2026-01-01T00:00:00 'drained*' disk\n"
    install(sinfo=SINFO + drained + "node gpu2 10.0.0.2 gpu2 batch Unknown Unknown 'idle~' none")
    found = states(SLURM, HOSTS)
    assert (found["gpu1"].state, found["gpu1"].line()) == (
        DRAINED_BY_OTHER,
        "drained by root: disk",
    )
    assert found["gpu2"].line() == "down: Slurm's word for it is 'idle~'"


@pytest.mark.parametrize(
    ("raw", "state"),
    [
        ("idle", "idle"),
        ("idle+cloud+planned", "idle"),
        ("idle+reserved", "idle"),
        ("idle+completing", "busy"),
        ("mixed+planned", "busy"),
        ("allocated", "busy"),
        ("allocated+", "busy"),
        ("idle+drain", "drained by other"),
        ("down+drain+not_responding", "drained by other"),
        ("unknown+drain+invalid_reg", "drained by other"),
        ("idle+fail", "drained by other"),
        ("idle+maintenance+reserved", "drained by other"),
        ("down+not_responding", "down"),
        ("idle+not_responding", "down"),
        ("idle+cloud+powered_down", "down"),
        ("idle+powering_up", "down"),
        ("inval", "down"),
        ("future", "down"),
        ("no-such-state", "down"),
        ("", "down"),
    ],
)
def test_what_slurm_calls_a_node(install: Install, raw: str, state: str) -> None:
    install(sinfo=SINFO + f"node gpu1 10.0.0.1 gpu1 batch Unknown Unknown '{raw}' none")
    assert states(SLURM, HOSTS)["gpu1"].state == state


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        ("idle", ""),
        ("idle+planned", "planned for a job"),
        ("idle-", "planned for a job"),
        ("idle+reserved", "reserved"),
        ("reserved", "reserved"),
    ],
)
def test_an_idle_node_that_slurm_keeps_for_a_job(install: Install, raw: str, wanted: str) -> None:
    install(sinfo=SINFO + f"node gpu1 10.0.0.1 gpu1 batch Unknown Unknown '{raw}' none")
    found = states(SLURM, HOSTS)["gpu1"]
    assert (found.state, found.wanted, found.line()) == ("idle", wanted, wanted or "idle")


def test_a_node_whose_jobs_are_hidden_is_at_work(install: Install) -> None:
    install(sinfo=SINFO + "node gpu1 10.0.0.1 gpu1 batch root x allocated+drain disk")
    found = states(SLURM, HOSTS)["gpu1"]
    assert (found.at_work, found.jobs) == (True, ())


def test_what_hangs_is_ended_with_all_that_it_started(install: Install, tmp_path: Path) -> None:
    install(squeue=f"sleep 4711 & echo $! >{tmp_path}/child; wait")
    begun = time.monotonic()
    with pytest.raises(UsageError, match=r"^squeue: no answer within 0\.3 s$"):
        programs.run(["squeue"], 0.3)
    assert time.monotonic() - begun < 5
    child = Path("/proc", (tmp_path / "child").read_text().strip(), "cmdline")
    wait_until(lambda: not child.exists() or child.read_bytes() == b"", 5)  # gone, or a zombie


def test_what_says_a_little_now_and_then_is_ended(install: Install) -> None:
    install(squeue="while :; do echo; sleep 0.05; done")
    with pytest.raises(UsageError, match=r"^squeue: no answer within 0\.5 s$"):
        programs.run(["squeue"], 0.5)


@pytest.mark.parametrize("where", ["", ">&2"])
def test_what_never_stops_talking_is_ended(install: Install, where: str) -> None:
    install(squeue=f"yes {where}")
    with pytest.raises(UsageError, match="squeue: answers with more than 32 MiB"):
        programs.run(["squeue"])


def test_the_clusters_own_configuration_is_kept_and_filters_are_not(
    install: Install, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", "/etc/here.conf")
    monkeypatch.setenv("SQUEUE_USERS", "nobody")
    monkeypatch.setenv("SLURM_CLUSTERS", "other")
    install(squeue='echo "$SLURM_CONF $SQUEUE_USERS $SLURM_CLUSTERS"')
    assert programs.run(["squeue"]) == (0, "/etc/here.conf  \n", "")


def test_a_drain_that_slurm_refuses_has_failed_and_the_others_go_on(
    install: Install, drains: Drains, tmp_path: Path
) -> None:
    record = f"node gpu2 10.0.0.2 gpu2 batch root now $([ -f {tmp_path}/done ] && echo drained || "
    record += "echo idle) 'hwcheck: sweep: y'\n"
    first = "node gpu1 10.0.0.1 gpu1 batch Unknown Unknown idle none\n"
    refused = "case $2 in nodename=gpu1) echo slurm_update error: Access denied >&2; exit 1;; esac"
    install(sinfo=SINFO + first + record, scontrol=f"{refused}\ntouch {tmp_path}/done")
    one, other = drain(drains, HOSTS, {"gpu1": "x", "gpu2": "y"}, Amount(2), dry_run=False)
    assert one.line() == "gpu1: drain: failed: scontrol: slurm_update error: Access denied"
    assert other.line() == "gpu2: drain: done: hwcheck: sweep: y"
    assert drains.log.read_text().count('"outcome": "failed"') == 1


def test_a_drain_that_the_scheduler_does_not_show_has_failed(
    install: Install, drains: Drains
) -> None:
    install(sinfo=SINFO + TWO)  # its scontrol says nothing and does nothing
    (action,) = drain(drains, HOSTS, {"gpu1": "x"}, Amount(2), dry_run=False)
    assert action.line() == "gpu1: drain: failed: now it is idle"


def test_a_log_that_cannot_be_written_to_leaves_all_as_it_is(
    install: Install, tmp_path: Path
) -> None:
    install(sinfo=SINFO + TWO, scontrol=f"touch {tmp_path}/ran")
    (tmp_path / "file").touch()
    drains = Drains(SLURM, "sweep", "runs/1", tmp_path / "file" / "drains.jsonl")
    with pytest.raises(UsageError, match=r"drains\.jsonl: cannot be appended to: "):
        drain(drains, HOSTS, {"gpu1": "x"}, Amount(2), dry_run=False)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("planted", ["link", "fifo"])
def test_a_log_that_is_no_plain_file_is_refused(
    install: Install, tmp_path: Path, planted: str
) -> None:
    """A link there would have lines of JSON appended to another file; a FIFO would wait."""
    install(sinfo=SINFO + TWO, scontrol=f"touch {tmp_path}/ran")
    log, target = tmp_path / "drains.jsonl", tmp_path / "authorized_keys"
    target.touch()
    log.symlink_to(target) if planted == "link" else os.mkfifo(log)
    drains = Drains(SLURM, "sweep", "runs/1", log)
    why = "a symbolic link" if planted == "link" else "not a file"
    with pytest.raises(UsageError, match=rf"drains\.jsonl: cannot be appended to: {why}"):
        drain(drains, HOSTS, {"gpu1": "x"}, Amount(2), dry_run=False)
    with pytest.raises(UsageError, match=rf"drains\.jsonl: cannot be read: {why}"):
        drained_for(log)
    assert not target.stat().st_size
    assert not (tmp_path / "ran").exists()


def test_on_a_full_disk_nothing_is_drained(
    install: Install, small_disk: Path, tmp_path: Path
) -> None:
    install(sinfo=SINFO + TWO, scontrol=f"touch {tmp_path}/ran")
    with pytest.raises(OSError, match="No space"):
        (small_disk / "filler").write_bytes(bytes(1 << 20))
    drains = Drains(SLURM, "sweep", "runs/1", small_disk / "drains.jsonl")
    (action,) = drain(drains, HOSTS, {"gpu1": "x"}, Amount(2), dry_run=False)
    assert "drain: failed: " in action.line()
    assert f"{small_disk}/drains.jsonl: cannot be appended to: No space left" in action.line()
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(("limit_s", "outage_s"), [(0.3, 60), (60, 0.3)])
def test_slurm_that_goes_away_for_good_while_a_job_is_waited_for(
    install: Install, monkeypatch: pytest.MonkeyPatch, limit_s: float, outage_s: float
) -> None:
    monkeypatch.setattr(actions, "OUTAGE_S", outage_s)
    install(squeue="exit 1")
    begun = time.monotonic()
    with pytest.raises(UsageError, match="squeue: it failed"):
        wait_until_free(SLURM, HOSTS, limit_s, threading.Event(), 0.1)
    assert 0.3 <= time.monotonic() - begun < 30


def test_slurm_that_is_back_soon_is_waited_for(install: Install, tmp_path: Path) -> None:
    install(
        sinfo=SINFO + TWO,
        squeue=f"[ -f {tmp_path}/asked ] || {{ touch {tmp_path}/asked; exit 1; }}",
    )
    assert wait_until_free(SLURM, HOSTS, 60, threading.Event(), 0.1) == {}
