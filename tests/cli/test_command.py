"""The letters of flags; what all that reach hosts share; how a command ends that breaks."""

from __future__ import annotations

import click
import pytest

from hwcheck.cli.command import Actions, command, ended, parts
from hwcheck.cli.root import load

ANSIBLE = {
    "-i": "hosts",
    "-l": "limit",
    "-e": "extra_vars",
    "-u": "user",
    "-k": "ask_pass",
    "-b": "become",
    "-K": "ask_become_pass",
    "-f": "forks",
    "-v": "verbose",
}
LONG = {"--become-user", "--accept-new-host-keys", "--list-hosts"}
REACHING = ("validate", "state", "provision", "rollout", "sweep run", "accept run", "train bench")


def named(path: str) -> click.Command:
    name, _, action = path.partition(" ")
    command = load(name)
    return command.commands[action] if isinstance(command, Actions) else command


def letters(command: click.Command) -> dict[str, str | None]:
    return {name: param.name for param in command.params for name in param.opts if len(name) == 2}


@pytest.mark.parametrize("path", REACHING)
def test_every_command_that_reaches_hosts_has_ansibles_flags(path: str) -> None:
    command = named(path)
    assert ANSIBLE.items() <= letters(command).items()
    assert {*LONG} <= {name for param in command.params for name in param.opts}


def test_letters_of_nccl_tests_are_there_where_ansible_has_no_such_letter() -> None:
    of_nccl_tests = {"-n": "iters", "-w": "warmup_iters", "-d": "datatype", "-f": "forks"}
    assert of_nccl_tests.items() <= letters(named("validate")).items()


@pytest.mark.parametrize(
    ("words", "free"),
    [
        ("-i a b", [2]),
        ("-f8 b", [1]),
        ("-bu a b", [2]),
        ("--hosts=a b", [1]),
        ("--become b", [1]),
        ("--require-coverage 90 b", [2]),
        ("--require-coverage --json b", [2]),
        ("-- -i a", [1, 2]),
        ("- b", [0, 1]),
    ],
)
def test_the_words_that_are_neither_flag_nor_value(words: str, free: list[int]) -> None:
    places = parts(named("validate").params, words.split())
    assert [place for place, flag in places if not flag] == free


def test_a_fault_of_ours_is_no_failure_of_a_host(capsys: pytest.CaptureFixture[str]) -> None:
    @command("broken")
    def broken() -> None:
        """Break."""
        raise ZeroDivisionError

    assert ended(lambda: broken.invoke(broken.make_context("broken", []))) == 3
    assert "ZeroDivisionError\nhwcheck: a fault of hwcheck itself" in capsys.readouterr().err
