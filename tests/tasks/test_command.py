"""The letters of flags; how a task ends that breaks."""

from __future__ import annotations

import pytest
from invoke import Context, Exit

from hwcheck.tasks.accept import accept
from hwcheck.tasks.command import Command, command
from hwcheck.tasks.provision import provision
from hwcheck.tasks.rollout import rollout
from hwcheck.tasks.state import state
from hwcheck.tasks.sweep import sweep
from hwcheck.tasks.validate import validate

ANSIBLE = {
    "i": "hosts",
    "e": "extra_vars",
    "u": "user",
    "k": "ask_pass",
    "b": "become",
    "K": "ask_become_pass",
}


def letters(task: Command) -> dict[str, str]:
    return {flag.names[1]: flag.name for flag in task.get_arguments() if len(flag.names) > 1}


@pytest.mark.parametrize("task", [validate, state, provision, rollout, sweep, accept])
def test_every_command_that_reaches_hosts_has_ansibles_letters(task: Command) -> None:
    assert ANSIBLE.items() <= letters(task).items()


def test_letters_of_nccl_tests_are_there_where_ansible_has_no_such_letter() -> None:
    of_nccl_tests = {"n": "iters", "w": "warmup_iters", "d": "datatype", "f": "forks"}
    assert of_nccl_tests.items() <= letters(validate).items()


def test_a_fault_of_ours_is_no_failure_of_a_host(capsys: pytest.CaptureFixture[str]) -> None:
    @command()
    def broken(ctx: Context) -> None:
        """Break."""
        raise ZeroDivisionError

    with pytest.raises(Exit) as ended:
        broken(Context())
    assert ended.value.code == 3
    assert "ZeroDivisionError\nhwcheck: a fault of hwcheck itself" in capsys.readouterr().err
