"""The letters of flags; how a task ends that breaks."""

from __future__ import annotations

import pytest
from invoke import Context, Exit

from hwcheck.tasks.command import command
from hwcheck.tasks.state import state
from hwcheck.tasks.validate import validate


def test_short_flags_are_those_of_nccl_tests_and_ansible() -> None:
    short = {flag.names[1]: flag.name for flag in validate.get_arguments() if len(flag.names) > 1}
    nccl_tests = {"b": "minbytes", "e": "maxbytes", "f": "stepfactor", "n": "iters"}
    assert nccl_tests.items() <= short.items()
    assert (short["w"], short["d"], short["l"]) == ("warmup_iters", "datatype", "limit")
    elsewhere = {flag.names[1]: flag.name for flag in state.get_arguments() if len(flag.names) > 1}
    assert elsewhere["f"] == "forks"


def test_a_fault_of_ours_is_no_failure_of_a_host(capsys: pytest.CaptureFixture[str]) -> None:
    @command()
    def broken(ctx: Context) -> None:
        """Break."""
        raise ZeroDivisionError

    with pytest.raises(Exit) as ended:
        broken(Context())
    assert ended.value.code == 3
    assert "ZeroDivisionError\nhwcheck: a fault of hwcheck itself" in capsys.readouterr().err
