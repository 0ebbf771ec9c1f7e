"""Several exit codes come down to the gravest."""

from __future__ import annotations

import pytest

from hwcheck.exit_codes import combine


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([], 0),
        ([0, 0], 0),
        ([0, 3], 3),
        ([3, 1, 0], 1),
        ([1, 2, 3], 2),
        ([2, 130, 1], 130),
    ],
)
def test_the_gravest_counts(codes: list[int], code: int) -> None:
    assert combine(codes) == code
    assert combine(reversed(codes)) == code


def test_a_code_that_is_none_of_ours_is_no_pass() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        combine([0, 4])
