"""The measure of hostile texts, held against readers that are known to be linear and not."""

import re

import pytest

from tests.proportion import assert_in_proportion

TEXT = "a" * 400_000


def test_one_pass_is_in_proportion() -> None:
    assert_in_proportion(lambda text: sum(map(ord, text)), TEXT)


def test_a_pass_for_each_part_is_not() -> None:
    with pytest.raises(AssertionError):
        assert_in_proportion(lambda text: re.findall("a*b", text[:20_000]), TEXT[:20_000])
