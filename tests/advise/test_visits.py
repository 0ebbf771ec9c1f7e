from __future__ import annotations

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hwcheck.advise.actions import actions
from hwcheck.advise.catalogue import shipped
from hwcheck.advise.visits import BY_PHASE, visit_actions
from hwcheck.contract.reasons import Reason
from hwcheck.judge.judge import judge
from hwcheck.results import phases
from hwcheck.results.run_folder import HOST_STATES, HostPlan
from tests.factories import HOSTILE, gpu_host, record, run

PHASES = [value for name, value in vars(phases).items() if name.isupper() and name != "NO_VISIT"]


@pytest.mark.parametrize("phase", PHASES)
def test_every_phase_of_a_visit_has_its_own_help(phase: str) -> None:
    (action,) = visit_actions(
        run(record("a", None, phase=phase, reason="x")), {"a": "inconclusive"}
    )
    assert action.cause == BY_PHASE[phase].cause
    assert action.fix == BY_PHASE[phase].fix
    assert "{" not in action.command


@pytest.mark.parametrize("state", [state for state in HOST_STATES if state != "reported"])
def test_every_state_but_reported_gives_an_action(state: str) -> None:
    (action,) = visit_actions(run(record("a", None, state=state, reason="why")), {})
    assert action.outcome == "inconclusive"
    assert action.hosts == ("a",)
    assert action.evidence[0].endswith("why")
    assert action.cause
    assert action.fix


def test_hosts_that_differ_in_name_and_address_are_one_action() -> None:
    down = [
        record(
            f"node{i:03d}", None, phase="connect", reason=f"no answer from 10.0.0.{i}:22 in 10 s"
        )
        for i in range(1, 201)
    ]
    (action,) = visit_actions(run(*down), {})
    assert len(action.hosts) == 200
    assert len(action.evidence) == 4
    assert action.command == "ansible node001 -i cluster.yml -m raw -a true -vvvv"


def test_other_reasons_are_other_actions() -> None:
    made = visit_actions(
        run(
            record("a", None, phase="connect", reason="a:22: Connection refused"),
            record("b", None, phase="connect", reason="b:22: No route to host"),
            record("c", None, phase="host key", reason="changed"),
            gpu_host("d"),
        ),
        {},
    )
    assert [action.hosts for action in made] == [("a",), ("b",), ("c",)]


def test_the_command_goes_the_way_of_the_inventory() -> None:
    a_run = run(record("a", None, phase="python", reason="python3: not found"))
    (action,) = visit_actions(a_run, {})
    assert action.command == "ansible a -i cluster.yml -m raw -a 'python3 --version'"
    assert "user, port" not in action.fix


def test_without_an_inventory_it_is_said_what_the_command_lacks() -> None:
    (action,) = visit_actions(run(record("a", None, phase="connect"), inventory=""), {})
    assert action.command == "ssh -v 10.0.0.1 true"
    assert "add the user, port, key and jump host of the inventory to the command" in action.fix


@pytest.mark.parametrize(
    "phase", [each for each in PHASES if each not in (phases.HOST_KEY, phases.NAME_LOOKUP)]
)
def test_ansible_finds_the_host_and_runs_the_command(
    phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run for real, on this machine, but for what would change to another user."""
    monkeypatch.setenv("ANSIBLE_NOCOLOR", "1")
    (tmp_path / "a b.yml").write_text("all:\n  hosts:\n    a: {ansible_connection: local}\n")
    a_run = run(record("a", None, phase=phase), inventory=str(tmp_path / "a b.yml"))
    (action,) = visit_actions(a_run, {})
    words = shlex.split(action.command.replace("sudo -n ", "").replace("sudo dmesg -T", "echo"))
    assert words[0] == "ansible"
    command = [sys.executable, "-m", "ansible", "adhoc", *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert "a | " in done.stdout, done.stderr
    assert "rc=" in done.stdout


@pytest.mark.parametrize("inventory", ["", "it's; reboot.yml"])
@pytest.mark.parametrize("phase", [phases.CONNECT, phases.HOST_KEY])
def test_names_are_quoted_for_the_shell(inventory: str, phase: str) -> None:
    a_run = run(record("b; reboot", None, phase=phase), inventory=inventory)
    plan = HostPlan("b; reboot", "x; rm -rf /")
    a_run = replace(a_run, meta=replace(a_run.meta, hosts=(plan,)))
    (action,) = visit_actions(a_run, {})
    words = shlex.split(action.command, comments=False)
    names = {"b; reboot", inventory} if inventory and phase == phases.CONNECT else {"x; rm -rf /"}
    assert names <= set(words)


@pytest.mark.parametrize("reason", HOSTILE)
def test_a_hostile_reason_is_made_harmless(reason: str) -> None:
    (action,) = visit_actions(run(record("a", None, reason=reason, phase=reason)), {})
    assert all(text.isprintable() and len(text) < 1000 for text in action.evidence)


def test_a_host_without_an_answer_is_told_of_once() -> None:
    a_run = run(record("a", None, phase="connect", reason="no answer"), gpu_host("b"))
    made = actions(a_run, judge(a_run, shipped()), shipped().checks)
    assert [action.check for action in made] == [""]


def test_a_partial_answer_keeps_its_own_findings() -> None:
    whole = gpu_host("a", power_limit_w=(3, 300.0))
    assert whole.report is not None
    kept = tuple(r for r in whole.report.results if r.check == "power_cap")
    partial = replace(
        whole,
        state="partial",
        phase="run",
        reason=Reason("not_measured", "silent for 30 s"),
        report=replace(whole.report, results=kept),
    )
    a_run = run(partial)
    made = actions(a_run, judge(a_run, shipped()), shipped().checks)
    assert [action.check for action in made] == ["", "power_cap"] or [
        action.check for action in made
    ] == ["power_cap", ""]
