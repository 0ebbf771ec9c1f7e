"""Modules that lie in the current folder, which others may write, are run by no command."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hwcheck.cli import root
from hwcheck.cli.root import COMPLETE

HWCHECK = Path(sys.executable).parent / "hwcheck"
PLANTED = ("ansible", "conftest", "jinja2", "json", "random", "select", "socket", "yaml")
NAMED = ("--hosts", "here.yml")
COMMANDS: dict[str, tuple[list[str], int]] = {
    "checks": (["checks"], 0),
    "validate": (["validate", *NAMED, "--only", "kernel"], 3),
    "state": (["state", *NAMED, "--roles", "nccl", "--extra-vars", "nccl_conf=absent"], 1),
    "provision": (["provision", *NAMED, "--playbook", "ping.yml"], 0),
    "rollout": (["rollout", *NAMED, "--playbook", "ping.yml", "--only", "kernel"], 3),
    "report": (["report", "nothing"], 2),
    "explain": (["explain", "nccl.log"], 0),
    "history": (["history"], 2),
    "compare": (["compare", "first", "second"], 2),
    "trend": (["trend", "busbw"], 2),
    "query": (["query", "SELECT 1"], 2),
    "sweep": (["sweep", "run", *NAMED, "--dry-run"], 0),
    "accept": (["accept", *NAMED, "--explain"], 0),
    "train": (["train", "bench", *NAMED, "--ranks", "3", "--global-batch", "4"], 2),
    "site": (["site", "test", "--site", "site"], 2),
}
"""A command line of each command, and its exit code; and what a shell asks for."""
MORE = ("rollout", "sweep", "accept", "compare", "trend", "query")
"""Start what validate, provision or history starts too; ``make test-wide`` takes them."""
PING = """
- hosts: all
  gather_facts: false
  tasks: [{name: Ping, ansible.builtin.ping: {}}]
"""
pytestmark = [pytest.mark.timeout(300), pytest.mark.usefixtures("real_ansible")]


def planted(folder: Path) -> Path:
    """Return the file into which a module of this folder writes as soon as it is imported."""
    mark = folder.parent / "mark"
    for name in PLANTED:
        text = f"with open({str(mark)!r}, 'a') as file:\n    print({name!r}, file=file)\n"
        (folder / f"{name}.py").write_text(text)
    return mark


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "shared"
    folder.mkdir()
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (folder / "here.yml").write_text(yaml.safe_dump({"all": {"hosts": {"here": here}}}))
    (folder / "ping.yml").write_text(PING)
    (folder / "nccl.log").write_text("nothing of NCCL\n")
    return folder


def run(folder: Path, *command: object) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("words", "exit_code"),
    [
        pytest.param(*each, id=name, marks=pytest.mark.wide if name in MORE else ())
        for name, each in COMMANDS.items()
    ],
)
def test_no_command_imports_from_the_current_folder(
    folder: Path, words: list[str], exit_code: int
) -> None:
    mark = planted(folder)
    done = run(folder, HWCHECK, *words)
    assert not mark.exists(), mark.read_text()
    assert done.returncode == exit_code, done.stdout + done.stderr


def test_no_completion_imports_from_the_current_folder(folder: Path) -> None:
    mark = planted(folder)
    words = "COMP_WORDS=hwcheck sweep run --level "
    done = run(folder, "env", f"{COMPLETE}=bash_complete", words, "COMP_CWORD=4", HWCHECK)
    assert not mark.exists(), mark.read_text()
    assert (done.returncode, "plain,nightly" in done.stdout) == (0, True)


def test_every_command_is_tried() -> None:
    assert set(COMMANDS) == {*root.COMMANDS}


def test_a_module_there_shows_itself_where_it_is_imported(folder: Path) -> None:
    mark = planted(folder)
    run(folder, sys.executable, "-m", "ansible", "inventory", "--list")
    assert mark.read_text().startswith("ansible")
