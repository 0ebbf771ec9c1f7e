"""Several tasks on one command line: the next one runs when the one before ended with 0."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hwcheck.tasks.command_line import COMMANDS, commands, program
from tests import factories
from tests.factories import gpu_host, record


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the folders of three saved runs by their outcome."""
    monkeypatch.chdir(tmp_path)
    hosts = {
        "pass": gpu_host("a"),
        "fail": gpu_host("a", power_limit_w=300.0),
        "inconclusive": record("a", None, phase="connect", reason="down"),
    }
    return {name: factories.saved(tmp_path, host).as_posix() for name, host in hosts.items()}


def test_the_next_task_runs_after_one_that_ended_with_0(
    saved: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        program.run(["hwcheck", "report", saved["pass"], "report", "--json", saved["fail"]])
    out, err = capfd.readouterr()
    first, _, second = out.partition("{")
    assert "Every check that applies passed" in first
    assert json.loads("{" + second)["outcome"] == "fail"
    assert (ended.value.code, err) == (1, "")


@pytest.mark.parametrize(("first", "code"), [("fail", 1), ("inconclusive", 3), ("nosuch", 2)])
def test_it_does_not_run_after_another_code_and_that_is_said(
    saved: dict[str, str], capfd: pytest.CaptureFixture[str], first: str, code: int
) -> None:
    with pytest.raises(SystemExit) as ended:
        program.run(["hwcheck", "report", saved.get(first, first), "checks", "report", "x"])
    out, err = capfd.readouterr()
    assert ended.value.code == code
    assert "power_limit_w [W]" not in out  # what `checks` prints
    said = f"hwcheck: report ended with exit code {code}; not run: checks, report"
    assert err.splitlines()[-1] == said


def test_the_last_task_leaves_nothing_to_say(
    saved: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        program.run(["hwcheck", "report", saved["fail"]])
    assert capfd.readouterr().err == ""


def test_its_help_begins_with_the_commands_and_has_no_option_that_it_refuses(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        program.run(["hwcheck", "--help"])
    out, err = capfd.readouterr()
    assert (ended.value.code, err) == (0, "")
    commands, _, options = out.partition("Options:")
    assert commands.startswith("Usage: hwcheck COMMAND [OPTIONS]\n\nCommands:\n\n  validate ")
    assert all(f"\n  {name} " in commands for name in COMMANDS)
    for name in set(re.findall(r"--([a-z-]+)", options)) - {"help", "version"}:
        assert name in ("list", "list-format", "complete", "print-completion-script")


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    outs = []
    for words in ([command, "--help"], ["--help", command]):
        with pytest.raises(SystemExit) as ended:
            program.run(["hwcheck", *words])
        out, err = capfd.readouterr()
        assert (ended.value.code, err) == (0, "")
        outs.append(out)
    assert outs[0] == outs[1]
    assert outs[0].startswith(f"Usage: hwcheck {command} [OPTIONS]\n\n  ")
    assert "\nOptions:\n\n  -" in outs[0]


@pytest.mark.parametrize("command", ["provision", "state", "rollout"])
def test_what_acts_on_hosts_does_so_only_where_they_are_named(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, refusal in {
        (): "no host is named: say --hosts cluster.yml, or --hosts node1,node2",
        ("-i", "missing.yml"): "no such inventory: missing.yml",
    }.items():
        with pytest.raises(SystemExit) as ended:
            program.run(["hwcheck", command, *words])
        assert ended.value.code == 2
        assert capfd.readouterr().err.startswith(f"hwcheck: {refusal}")
    assert list(tmp_path.iterdir()) == []


def test_i_is_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for words, refusal in {
        ("validate", "-i", "missing.ini"): "no such inventory: missing.ini",
        ("-i", "missing.ini", "validate"): "-i: it stands before a command, and options follow",
    }.items():
        with pytest.raises(SystemExit) as ended:
            program.run(["hwcheck", *words])
        assert ended.value.code == 2
        assert capfd.readouterr().err.startswith(f"hwcheck: {refusal}")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["hwcheck", "trend", "busbw_gbps"], {"trend"}),
        (["hwcheck", "report", "a", "compare", "a", "b"], {"report", "compare"}),
        (["hwcheck", "histroy"], set(COMMANDS)),
        (["hwcheck", "--list", "history"], set(COMMANDS)),
        (["hwcheck", "--complete", "--", "hwcheck", "history"], set(COMMANDS)),
        (["hwcheck"], set(COMMANDS)),
    ],
)
def test_of_a_command_line_only_its_commands_are_imported(
    words: list[str], names: set[str]
) -> None:
    assert set(commands(words).task_names) == names


@pytest.mark.parametrize(
    ("name", "imported"), [("history", False), ("compare", False), ("query", False), ("site", True)]
)
def test_what_asks_the_history_imports_nothing_that_judges_or_draws(
    name: str, imported: bool
) -> None:
    code = f"""
import sys
from hwcheck.tasks.command_line import commands
commands([{name!r}])
print({{"numpy", "jinja2", "matplotlib"}} & set(sys.modules) != set())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{imported}\n"


@pytest.mark.parametrize(
    "command", [["validate"], ["state"], ["provision"], ["rollout"], ["train", "bench"]]
)
def test_the_hosts_are_listed_and_nothing_is_done(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--hosts", "node[01-12]", "--limit", "node[09-10,12]", "--list-hosts"]
    program.run(["hwcheck", *command, *words], exit=False)
    assert capfd.readouterr().out.split() == ["node09", "node10", "node12"]
    assert list(tmp_path.iterdir()) == []
