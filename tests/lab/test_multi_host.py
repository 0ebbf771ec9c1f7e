"""Several hosts at once, over real SSH and links of real width: who is named, what is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.advise.multi_host import FABRIC_TITLE
from hwcheck.results.multi_host import read_multi_host
from hwcheck.run.multi_host.orders import GLOO
from hwcheck.run.multi_host.participants import Participants
from tests.lab.groups import FIFTH, RATE, python_with_torch, run_multi_host
from tests.lab.lab import Lab, Node, wait_until

HWCHECK = Path(sys.executable).parent / "hwcheck"
FAULTS = Path(__file__).with_name("torch_faults")
NAMES = ("n1", "n2", "n3", "n4")
SLOW, WRONG, FROZEN = "n3", "n2", "n4"
GONE_S = 5.0
SLOW_LINK = {name: FIFTH if name == SLOW else RATE for name in NAMES}
EVEN = dict.fromkeys(NAMES, RATE)
"""Unlimited links would show how busy this machine is."""
BRIEF = replace(GLOO, start_s=5.0)

pytestmark = [pytest.mark.usefixtures("namespaces"), pytest.mark.timeout(120)]


def nothing_left(*nodes: Node) -> None:
    """Wait until every process of a visit is gone; sshd takes a moment to end its own."""
    wait_until(lambda: not any(node.visitors() for node in nodes), GONE_S)


def test_a_slow_link_is_named_by_the_tournament(tmp_path: Path) -> None:
    """The tournament as its user runs it, and its report again from the saved run."""
    pytest.importorskip("torch")
    with Lab(NAMES, rates=SLOW_LINK) as lab:
        file = lab.inventory(ansible_python_interpreter=sys.executable, hwcheck_interface="eth0")
        command = [HWCHECK, "validate", "--hosts", file, "--json", "--scope", "pairs"]
        command += ["--datatype", "bfloat16", "--warmup-iters", "0"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        nothing_left(*lab.nodes.values())
    assert done.returncode == 1, done.stderr
    summary = json.loads(done.stdout)
    suspects = [(each["hosts"], each["kind"]) for each in summary["group"]["suspects"]]
    assert suspects == [([SLOW], "slow")], summary["group"]
    assert summary["hosts"]["fail"] == [SLOW]
    assert sorted(summary["hosts"]["pass"]) == sorted({*NAMES} - {SLOW})
    run = tmp_path / summary["run"]
    record = read_multi_host(run)
    assert record is not None
    assert sum(each.why == "pairs" for each in record.runs) == 6
    assert {each.dtype for each in record.runs} == {"bfloat16"}, "what is asked reaches the hosts"
    report = (run / "report.html").read_bytes()
    assert b"Between hosts" in report
    again = subprocess.run([HWCHECK, "report", run], cwd=tmp_path, capture_output=True, check=False)
    assert again.returncode == 1
    assert (run / "report.html").read_bytes() == report


@pytest.mark.wide
@pytest.mark.parametrize("scope", ["pairs", "all"])
def test_a_slow_uplink_fails_the_run_and_no_host(tmp_path: Path, scope: str) -> None:
    """Each half is fine, and what connects them carries a fifth."""
    pytest.importorskip("torch")
    with Lab(NAMES, rates=EVEN, uplink=(NAMES[2:], FIFTH)) as lab:
        file = lab.inventory(ansible_python_interpreter=sys.executable, hwcheck_interface="eth0")
        command = [HWCHECK, "validate", "--hosts", file, "--json", "--scope", scope]
        command += ["--datatype", "bfloat16", "--warmup-iters", "0"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        nothing_left(*lab.nodes.values())
    assert done.returncode == 1, done.stderr
    summary = json.loads(done.stdout)
    assert summary["group"]["suspects"] == []
    (line,) = summary["group"]["unresolved"]
    assert line.startswith("the fabric between n[1-2] and n[3-4]: slow wherever hosts of both run")
    assert sorted(summary["hosts"]["pass"]) == list(NAMES)
    assert summary["decision"]["line"].endswith("; mend the fabric between n[1-2] and n[3-4].")
    (action,) = (each for each in summary["actions"] if each["outcome"] == "fail")
    assert action["title"] == FABRIC_TITLE


@pytest.mark.wide
def test_a_slow_link_is_named_by_bisection(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with Lab(NAMES, rates=SLOW_LINK) as lab:
        split = run_multi_host(python_with_torch(lab.hosts()), tmp_path, ("all",))
        nothing_left(*lab.nodes.values())
    assert [(each.hosts, each.kind) for each in split.suspects] == [((SLOW,), "slow")]
    assert {each.why for each in split.runs} == {"pairs", "all", "split"}


@pytest.mark.wide
def test_a_host_that_damages_data_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with Lab(NAMES, rates=EVEN) as lab:
        wrapper = lab.folder / WRONG / "python"
        wrapper.write_text(f'#!/bin/sh\nPYTHONPATH={FAULTS} exec {sys.executable} "$@"\n')
        wrapper.chmod(0o755)
        hosts = python_with_torch(lab.hosts())
        record = run_multi_host(hosts, tmp_path, ("all",), torch_python={WRONG: str(wrapper)})
        nothing_left(*lab.nodes.values())
    (wrong,) = record.suspects
    assert (wrong.hosts, wrong.kind) == ((WRONG,), "wrong")
    assert any("wrong elements from n2 to n" in line for line in wrong.evidence)
    assert sum(line.endswith(": wrong") for line in wrong.evidence) >= 2, "with known-good partners"


def freeze_next_rank(node: Node) -> None:
    """Stop the first process that a host starts from now on."""
    before = set(node.processes())

    def strike() -> None:
        wait_until(lambda: set(node.processes()) - before, 30)
        for pid in set(node.processes()) - before:
            os.kill(pid, signal.SIGSTOP)

    threading.Thread(target=strike, daemon=True).start()


@pytest.mark.wide
def test_a_frozen_rank_is_a_hang_that_is_named_and_leaves_nothing(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with Lab(NAMES, rates=EVEN) as lab:
        node = lab.nodes[FROZEN]

        def entered(members: Participants) -> None:
            assert members.present == NAMES
            freeze_next_rank(node)

        hosts = python_with_torch(lab.hosts())
        record = run_multi_host(hosts, tmp_path, ("pairs",), sizing=BRIEF, entered=entered)
        nothing_left(*lab.nodes.values())
    hung = [run for run in record.runs if run.state == "hang"]
    assert len(hung) == 1, "the ranks of the next order are new, and well"
    assert FROZEN in hung[0].hosts
    assert hung[0].left_over == {}
    assert all("stack of rank" in text for text in hung[0].logs.values())
    assert len(hung[0].logs) == 2
    (suspect,) = record.suspects
    assert (suspect.hosts, suspect.kind) == ((FROZEN,), "hang")
    assert suspect.evidence[0].endswith(f"on {FROZEN} is stopped")


@pytest.mark.wide
def test_a_frozen_host_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    with Lab(NAMES, rates=EVEN) as lab:
        node = lab.nodes[FROZEN]
        hosts = python_with_torch(lab.hosts())
        record = run_multi_host(
            hosts, tmp_path, ("pairs",), sizing=BRIEF, entered=lambda _: node.freeze()
        )
        nothing_left(*(each for name, each in lab.nodes.items() if name != FROZEN))
        node.thaw()
        # It finds its controller gone, and ends what it had started.
        wait_until(lambda: not node.visitors(), 45)
    assert [(each.hosts, each.kind) for each in record.suspects] == [((FROZEN,), "hang")]
    assert "no sign of life" in record.absent[FROZEN].text
    pairs = {run.hosts for run in record.runs if run.why == "pairs" and run.state == "done"}
    assert {frozenset(pair) for pair in pairs} == {
        frozenset(pair) for pair in (("n1", "n2"), ("n1", "n3"), ("n2", "n3"))
    }
