"""Several tasks on one command line: the next one runs when the one before ended with 0."""

import json
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hwcheck.cli.command import Actions, path_of
from hwcheck.cli.program import run
from hwcheck.cli.root import COMMANDS, call, load, parse
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
        run(["report", saved["pass"], "report", "--json", saved["fail"]])
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
        run(["report", saved.get(first, first), "checks", "report", "x"])
    out, err = capfd.readouterr()
    assert ended.value.code == code
    assert "power_limit_w [W]" not in out  # what `checks` prints
    said = f"hwcheck: report ended with exit code {code}; not run: checks, report"
    assert err.splitlines()[-1] == said


def test_the_last_task_leaves_nothing_to_say(
    saved: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(["report", saved["fail"]])
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "paths"),
    [
        (["report", "a", "report", "--json", "b"], ["report", "report"]),
        (["report", "checks", "checks"], ["report", "checks"]),
        (["validate", "-kK", "--hosts", "checks", "checks"], ["validate", "checks"]),
        (["validate", "-f8", "-l", "report", "report", "a"], ["validate", "report"]),
        (["validate", "-kfu", "report", "a"], None),
        (["validate", "-bu", "report", "report", "a"], ["validate", "report"]),
        (["checks", "pcie_link", "power_cap", "report", "a"], ["checks", "report"]),
        (["compare", "a", "--last", "green", "query", "SELECT 1"], ["compare", "query"]),
        (["compare", "a", "b", "query", "SELECT 1"], ["compare", "query"]),
        (["report", "a", "--require-coverage", "--json", "checks"], ["report", "checks"]),
        (["sweep", "status", "--hosts", "a", "checks"], ["sweep status", "checks"]),
        (["accept", "sign", "a", "--key", "k", "accept", "status"], ["accept sign", "accept stat"]),
        (["query", "--", "-- a comment"], ["query"]),
    ],
)
def test_where_one_command_ends_and_the_next_begins(
    words: list[str], paths: list[str] | None
) -> None:
    if paths is None:
        with pytest.raises(click.UsageError):
            parse(words)
        return
    found = [path_of(ctx) for ctx in parse(words)]
    assert [path[: len(wanted)] for path, wanted in zip(found, paths, strict=True)] == paths


def test_nothing_is_run_where_a_later_command_cannot_be_understood(
    saved: dict[str, str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert call(["report", saved["pass"], "checks", "--jsn"]) == 2
    out, err = capfd.readouterr()
    assert (out, err) == ("", "hwcheck: --jsn: no such option of checks; did you mean --json?\n")


@pytest.mark.parametrize("words", [["--help"], ["-h"], []])
def test_its_help_begins_with_the_commands(
    words: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert call(words) == 0
    out, err = capfd.readouterr()
    assert err == ""
    assert out.startswith("Usage: hwcheck COMMAND [OPTIONS]\n\n  Say which GPU nodes")
    assert re.findall(r"^  ([a-z]+) ", out, re.MULTILINE)[-len(COMMANDS) :] == [*COMMANDS]
    assert "\n  -V, --version " in out


def test_the_commands_are_listed(capfd: pytest.CaptureFixture[str]) -> None:
    assert call(["--list"]) == 0
    listed = capfd.readouterr().out
    assert re.findall(r"^  ([a-z]+) ", listed, re.MULTILINE) == [*COMMANDS]


@pytest.mark.parametrize("flag", ["-l", "--list"])
def test_the_list_takes_no_word(flag: str, capfd: pytest.CaptureFixture[str]) -> None:
    said = f"hwcheck: {flag} validate: it lists all commands; leave it out, or see --help\n"
    for words in [flag, "validate"], [f"{flag}=validate"]:
        assert call(words) == 2
        assert capfd.readouterr() == ("", said)


def helped(words: list[str], capfd: pytest.CaptureFixture[str]) -> str:
    assert call(words) == 0
    out, err = capfd.readouterr()
    assert err == ""
    return out


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_action_has_help_with_three_examples(
    name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    out = helped([name, "--help"], capfd)
    assert out == helped(["--help", name], capfd) == helped([name, "-h"], capfd)
    assert out == helped([f"--help={name}"], capfd)
    command = load(name)
    if not isinstance(command, Actions):
        texts = {name: (out, command)}
        assert out.startswith(f"Usage: hwcheck {name} [OPTIONS]")
    else:
        assert out.startswith(f"Usage: hwcheck {name} ACTION [OPTIONS]\n\n  ")
        texts = {
            f"{name} {action}": (helped([name, action, "--help"], capfd), each)
            for action, each in command.commands.items()
        }
    for path, (text, each) in texts.items():
        assert "\nOptions:\n  -" in text
        examples = text.partition("\nExamples:\n")[2].splitlines()
        assert len(examples) == 3
        assert all(f"  hwcheck {name} " in f"{example} " for example in examples), path
        assert not {" TEXT ", " STRING "} & {*re.findall(r" [A-Z]+ ", text)}, "says what a value is"
        assert each.help


@pytest.mark.parametrize("name", COMMANDS)
def test_no_line_of_a_help_is_wider_than_80_columns(
    name: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    command = load(name)
    actions = [*command.commands] if isinstance(command, Actions) else []
    for path in [[name], *([name, action] for action in actions)]:
        lines = helped([*path, "--help"], capfd).splitlines()
        assert [line for line in lines if len(line) > 80] == []


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
            run([command, *words])
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
            run([*words])
        assert ended.value.code == 2
        assert capfd.readouterr().err.startswith(f"hwcheck: {refusal}")


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["trend", "--help"], {"trend"}),
        (["--help", "compare"], {"compare"}),
        (["histroy"], set()),
        (["--version"], set()),
        (["sweep", "staus"], {"sweep"}),
        (["--help"], set(COMMANDS)),
    ],
)
def test_of_a_command_line_only_its_commands_are_imported(
    words: list[str], names: set[str]
) -> None:
    code = f"""
import sys
from hwcheck.cli.root import call
call({words!r})
named = [name for name in {sorted(COMMANDS)!r} if f"hwcheck.cli.{{name}}" in sys.modules]
print(named, "invoke" in sys.modules, "fabric" in sys.modules, file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    connects = "sweep" in names
    assert done.stderr.splitlines()[-1] == f"{sorted(names)} {connects} {connects}"


@pytest.mark.parametrize(
    "name", ["report", "history", "compare", "trend", "query", "checks", "explain", "site"]
)
def test_what_reaches_no_host_imports_neither_fabric_nor_invoke(name: str) -> None:
    code = f"""
import sys
from hwcheck.cli.root import load
load({name!r})
print({{"fabric", "invoke", "paramiko"}} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.mark.parametrize(
    ("name", "imported"), [("history", False), ("compare", False), ("query", False), ("site", True)]
)
def test_what_asks_the_history_imports_nothing_that_judges_or_draws(
    name: str, imported: bool
) -> None:
    code = f"""
import sys
from hwcheck.cli.root import load
load({name!r})
print({{"numpy", "jinja2", "matplotlib"}} & set(sys.modules) != set())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == f"{imported}\n"


@pytest.mark.parametrize(
    "command",
    [
        ["validate"],
        ["state"],
        ["provision"],
        ["rollout"],
        ["train", "bench"],
        ["sweep", "run"],
        ["accept", "run"],
        ["accept"],
    ],
)
def test_the_hosts_are_listed_and_nothing_is_done(
    command: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--hosts", "node[01-12]", "--limit", "node[09-10,12]", "--list-hosts"]
    assert call([*command, *words]) == 0
    assert capfd.readouterr().out.split() == ["node09", "node10", "node12"]
    assert list(tmp_path.iterdir()) == []
