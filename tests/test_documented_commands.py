"""Every command of ours that README and docs show is one: as they stand, none is refused.

All are parsed, so that a flag of another name is noticed. What would reach hosts of ``cluster.yml``
is run up to there (``--dry-run``), so that what its flags say is checked as well; what asks only
hwcheck itself is run whole. Of the others a test of their own says more than that they parse.
"""

from __future__ import annotations

import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from fabric import Config
from fabric.main import Fab
from invoke.exceptions import ParseError

from hwcheck.cli import root
from hwcheck.cli.command import Actions, Command, path_of
from hwcheck.cli.command_line import Executor, commands
from hwcheck.cli.root import COMMANDS, call

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:hwcheck|fab|make) [^`]+)`")
COMMENT = re.compile(r"\s+#.*")
OPTIONAL = re.compile(r"(?<= )\[(-[^\]]*)\]")
"""As ``[--budget 90m ...]``: what may be left out is written so."""
OURS = re.compile(rf"(hwcheck|fab) ({'|'.join(COMMANDS)}) .")
REFUSED = "fab validate --hots x"
"""Shown as one that cannot be parsed."""
CLUSTER = """\
all:
  children:
    h100: {hosts: {'node[01:24]': {ansible_host: '{{ inventory_hostname }}.invalid'}}}
"""


def shown() -> Iterator[tuple[str, str]]:
    """Yield the page of each command, and the command without its comment."""
    for page in PAGES:
        text = page.read_text("utf-8")
        lines = [line for block in BLOCK.findall(text) for line in block.splitlines()]
        for line in [*lines, *INLINE.findall(BLOCK.sub("", text))]:
            command = COMMENT.sub("", line.strip())
            yield page.name, OPTIONAL.sub(r"\1", command).replace(" ...", "").partition(" | ")[0]


def examples() -> Iterator[str]:
    """Yield the examples that the helps end with."""
    for name in COMMANDS:
        command = root.load(name)
        for each in command.commands.values() if isinstance(command, Actions) else [command]:
            assert isinstance(each, Command)
            yield from each.examples


def ours() -> list[str]:
    """Return those of hwcheck with what they take; a bare name within a sentence is none."""
    of_pages = [command for _, command in shown() if OURS.match(command)]
    found = dict.fromkeys([*of_pages, *examples()])
    return [command for command in found if command != REFUSED]


def words_of(command: str) -> list[str]:
    """Return its words as a shell hands them on, less where its output goes."""
    return shlex.split(command.partition(" >")[0])


def parse(words: list[str]) -> list[str]:
    """Return the commands of a command line; none is run. Raises what refuses one."""
    if words[0] == "hwcheck" and words[-1] == "--help":
        assert call(words[1:]) == 0
        return [words[1]]
    if words[0] == "hwcheck":
        return [path_of(ctx).partition(" ")[0] for ctx in root.parse(words[1:])]
    parser = Fab(namespace=commands(), executor_class=Executor, config_class=Config, version="0")
    parser.create_config()
    parser.parse_core(words)
    parser.parse_collection()
    parser.parse_tasks()
    return [task.name for task in parser.tasks]


def test_they_are_found() -> None:
    assert {"hwcheck validate --hosts cluster.yml", "fab validate --hosts cluster.yml"} <= {*ours()}
    assert {words_of(command)[1] for command in ours()} >= set(COMMANDS) - {"site"}


@pytest.mark.parametrize("command", ours())
def test_it_can_be_parsed(command: str) -> None:
    words = words_of(command)
    assert parse(words) == [word for word in words if word in COMMANDS]


@pytest.mark.parametrize("wrong", [REFUSED, "hwcheck sweep run --levels x"])
def test_the_control_a_flag_that_does_not_exist(wrong: str) -> None:
    with pytest.raises((ParseError, click.UsageError)):
        parse(words_of(wrong))


def tried() -> Iterator[list[str]]:
    """Yield what can be run with no host: whole, or with the option that ends it before a visit.

    Draining asks a scheduler who drains what.
    """
    for words in map(words_of, ours()):
        name, rest = words[1], words[2:]
        if name == "validate" and "--hosts" in rest:
            yield [*words[:2], *({"--dry-run": None} | dict.fromkeys(rest))]
        elif words[1:3] == ["sweep", "run"] and {"--hosts", "--drain-failed"} & {*rest} == {
            "--hosts"
        }:
            yield [*words, *({"--dry-run"} - {*rest})]
        elif name == "checks" or "--explain" in rest or rest[:1] == ["criteria"]:
            yield words


@pytest.mark.parametrize("words", list(tried()), ids=" ".join)
def test_it_is_run_up_to_the_hosts(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.stdin", io.StringIO("a password\n"))
    (tmp_path / "cluster.yml").write_text(CLUSTER)
    (tmp_path / "runs/latest").mkdir(parents=True)
    (tmp_path / "runs/latest/retry").write_text("node02\n")
    if words[0] == "hwcheck":
        assert call(words[1:]) == 0
        return
    fab = Fab(namespace=commands(), executor_class=Executor, config_class=Config, version="0")
    fab.run(words)  # ends the process where it is refused


def test_every_target_of_make_is_there() -> None:
    targets = set(re.findall(r"^([\w.-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    asked = {words[1] for _, each in shown() if (words := each.split())[:1] == ["make"]}
    assert asked <= targets
    assert {"validate", "test", "demo", "docs"} <= asked
