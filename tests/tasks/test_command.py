"""Values of flags; what they refuse is in test_bad_input.py as well."""

from __future__ import annotations

import pytest

from hwcheck.errors import UsageError
from hwcheck.tasks.command import seconds, whole
from hwcheck.tasks.state import state
from hwcheck.tasks.validate import validate


@pytest.mark.parametrize(
    ("text", "length_s"),
    [("90", 90), ("90s", 90), ("45m", 2700), ("1.5h", 5400), ("8h", 28800)],
)
def test_a_duration(text: str, length_s: float) -> None:
    assert seconds("--duration", text) == length_s


@pytest.mark.parametrize(
    "text", ["", "h", "8hh", "8 h", "-8h", "1h30m", "0", "inf", "nan", "1e400"]
)
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(UsageError, match="it takes seconds, or 45m or 8h"):
        seconds("--duration", text)


def test_a_whole_number_has_a_least() -> None:
    assert whole("--forks", "1", 1) == 1
    with pytest.raises(UsageError, match="--forks 0: it takes a whole number from 1"):
        whole("--forks", "0", 1)


@pytest.mark.parametrize("text", ["1" + "0" * 400, "9" * 5000])
def test_a_number_beyond_all_sense_is_refused_and_not_shown_whole(text: str) -> None:
    with pytest.raises(UsageError, match="a whole number from 0, of at most 9 digits") as caught:
        whole("--timeout", text, 0)
    assert len(str(caught.value)) < 120


def test_short_flags_are_those_of_nccl_tests_and_ansible() -> None:
    short = {flag.names[1]: flag.name for flag in validate.get_arguments() if len(flag.names) > 1}
    nccl_tests = {"b": "minbytes", "e": "maxbytes", "f": "stepfactor", "n": "iters"}
    assert nccl_tests.items() <= short.items()
    assert (short["w"], short["d"], short["l"]) == ("warmup_iters", "datatype", "limit")
    elsewhere = {flag.names[1]: flag.name for flag in state.get_arguments() if len(flag.names) > 1}
    assert elsewhere["f"] == "forks"
