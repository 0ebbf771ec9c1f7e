"""The letters of flags."""

from __future__ import annotations

from hwcheck.tasks.state import state
from hwcheck.tasks.validate import validate


def test_short_flags_are_those_of_nccl_tests_and_ansible() -> None:
    short = {flag.names[1]: flag.name for flag in validate.get_arguments() if len(flag.names) > 1}
    nccl_tests = {"b": "minbytes", "e": "maxbytes", "f": "stepfactor", "n": "iters"}
    assert nccl_tests.items() <= short.items()
    assert (short["w"], short["d"], short["l"]) == ("warmup_iters", "datatype", "limit")
    elsewhere = {flag.names[1]: flag.name for flag in state.get_arguments() if len(flag.names) > 1}
    assert elsewhere["f"] == "forks"
